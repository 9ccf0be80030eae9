# Owned by the operations team.

team "operations" {
  # A server that is running already, reached over HTTP. It need not be up when the gateway starts:
  # its prompts are listed once it answers, and stay listed when it goes down.
  #
  # Its list changes every 30 seconds. It notifies the gateway, which fetches the new list and then
  # notifies each client whose own list has changed.
  upstream "handbook" {
    url = "http://127.0.0.1:9090/mcp"
  }
}

# Owned by the operations team.

team "operations" {
  # A server that runs on its own and is reached over HTTP. It need not be up when the gateway
  # starts: its prompts join the list once it answers, and stay listed when it goes away.
  #
  # Its list changes every 30 seconds. The gateway is told, lists it again, and then tells each
  # client whose own list has changed.
  upstream "handbook" {
    url = "http://127.0.0.1:9090/mcp"
  }
}

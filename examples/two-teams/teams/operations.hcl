team "operations" {
  members = ["group:operations"]

  upstream "handbook" {
    url = "http://127.0.0.1:9090/mcp"
  }

  expose "engineering writes incident reports too" {
    prompts = ["handbook.*"]
    to      = ["team:engineering"]
  }

  # Hidden from everybody, members included, even though the block above exposes it.
  hide "not ready yet" {
    prompts = ["handbook.shift_handover"]
  }
}

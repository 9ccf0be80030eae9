team "operations" {
  members = ["group:operations"]

  upstream "handbook" {
    url = "http://127.0.0.1:9090/mcp"
  }

  expose "engineering writes incident reports too" {
    prompts = ["handbook.*"]
    to      = ["team:engineering"]
  }

  # Hides from everybody, members included, whatever is exposed above.
  hide "not ready yet" {
    prompts = ["handbook.shift_handover"]
  }
}

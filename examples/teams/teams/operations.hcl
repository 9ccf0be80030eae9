team "operations" {
  members = ["group:operations"]

  upstream "handbook" {
    url = "http://127.0.0.1:9090/mcp"
  }

  # Everybody on call writes reports and hands over, whatever their team.
  expose "handbook for people on call" {
    prompts = ["handbook.*"]
    to      = ["*"]
    when    = contains(principal.groups, "group:on-call")
  }

  # Hidden from everybody, members included.
  hide "not ready yet" {
    prompts = ["handbook.shift_handover"]
  }
}

team "operations" {
  members = ["group:operations"]

  upstream "handbook" {
    url = "http://127.0.0.1:9090/mcp"
  }

  # Whoever is on call, of whichever team, writes reports and hands over.
  expose "the handbook on call" {
    prompts = ["handbook.*"]
    to      = ["*"]
    when    = contains(principal.groups, "group:on-call")
  }

  # From everybody, members included.
  hide "not ready yet" {
    prompts = ["handbook.shift_handover"]
  }
}

team "b" {
  members = ["nobody"] # ERROR: cannot be a member
  upstream "b" { url = "b.example.com" } # ERROR: is not an http
  expose "x" {
    prompts = ["*"]
    to      = ["team:a", "team:c", "team:d"] # ERROR: names a team that no team block declares
  }
}

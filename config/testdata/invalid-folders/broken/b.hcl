team "b" {
  members = ["nobody"] # ERROR: selects no one
  upstream "b" { url = "b.example.com" } # ERROR: is not an http
  expose "x" {
    prompts = ["*"]
    to      = ["team:a", "team:c", "team:d"] # ERROR: names a team that no team block declares
  }
}

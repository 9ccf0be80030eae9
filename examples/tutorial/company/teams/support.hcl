team "support" {
  members = ["group:support"]

  upstream "letters" { files = ["letters/*.md"] }
}

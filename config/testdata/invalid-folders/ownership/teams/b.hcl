team "b" {
  upstream "u" { url = "https://b.example.com/mcp" }
}

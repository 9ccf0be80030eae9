team "a" {
  upstream "docs" { url = "http://localhost:9000/mcp" }
}

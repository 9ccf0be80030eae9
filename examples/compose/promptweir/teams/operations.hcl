team "operations" {
  members = ["group:operations"]

  upstream "handbook" { url = "http://127.0.0.1:9090/mcp" }
}

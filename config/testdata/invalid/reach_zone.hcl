gateway { listen = "[::1%lo]:9000" }
team "a" {
  upstream "u1" { url = "http://[::1]:9000/mcp" }          # ERROR: This is the gateway's own gateway.listen
  upstream "u2" { url = "http://localhost:9000/mcp" }      # ERROR: This is the gateway's own gateway.listen
  upstream "u3" { url = "http://[::2]:9000/mcp" }
}

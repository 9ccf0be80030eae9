team "a" {
  upstream "u1" { url = "http://localhost:8080/mcp" }      # ERROR: gateway.listen
  upstream "u2" { url = "http://127.0.0.1:8081/metrics" }  # ERROR: admin.listen
  upstream "u3" { url = "http://127.0.0.2:8080/mcp" }
}

team "a" {
  upstream "docs" { url = "http://localhost:9000/mcp" }
  upstream "trusted" {
    command = ["tool"]
    env     = { PATH = "/opt/tool/bin" } # without allow blocks there is one owner
  }
}

# What deployments take from outside.
gateway {
  listen       = env("LISTEN")
  public_url   = env("PUBLIC_URL", "http://localhost")
  instructions = file("secrets/payments/token")
  state_dir    = env("STATE_DIRECTORY", "state")
}
team "a" {
  upstream "docs" { url = "https://docs.example.com/${env("SECRET")}/mcp" }
  upstream "tool" { command = ["tool", "--key", env("SECRET"), file("secrets/payments/token")] }
  upstream "plain" { url = "https://a.example.com/mcp" }
}

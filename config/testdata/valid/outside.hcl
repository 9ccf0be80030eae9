# What deployments take from outside.
gateway {
  listen       = env("LISTEN")
  public_url   = env("PUBLIC_URL", "http://localhost")
  instructions = file("secrets/payments/token")
}
team "a" {
  upstream "docs" { url = "https://docs.example.com/${env("SECRET")}/mcp" }
  upstream "tool" { command = ["tool", "--key", env("SECRET"), file("secrets/payments/token")] }
}

# Labels need no quotes.
allow pay { hosts = ["*.internal"] }
team pay {
  members = ["group:pay"]
  upstream ledger { url = "https://ledger.internal/mcp" }
  expose everything {
    prompts = ["ledger.*"]
    to      = ["team:pay"]
  }
}

gateway {
  public_url = "https://prompts.example.com"
}
team "a" {
  upstream "one" {
    url = "https://a.example.com/one"
    assertion {}                         # ERROR: Nothing signs; An assertion is signed by the gateway, under its public_url; set signing_keys and public_url in the gateway block.
  }
}
team "b" {
  upstream "two" {
    url = "https://a.example.com/one"
    assertion {}                         # ERROR: Nothing signs # ERROR: One audience for two teams
  }
}

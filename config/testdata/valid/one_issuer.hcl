auth {
  jwt "a" {
    issuer   = "https://a.example.com"
    audience = "x"
  }
}

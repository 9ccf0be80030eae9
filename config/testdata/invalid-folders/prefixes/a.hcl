team "a" {
  upstream "one" {
    url    = "https://one.example.com"
    prefix = "docs"
  }
}

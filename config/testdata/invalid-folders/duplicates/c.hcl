team "t" {
  upstream "u" { url = "https://u.example.com" }
}

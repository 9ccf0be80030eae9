team "b" {
  upstream "v" {
    url = "https://v.example.com"
    headers = {
      X-One = "Bearer ${env("CURSOR")}" # ERROR: Not for a team
      X-Two = env("NEWER", "x")         # ERROR: Not for a team
    }
  }
}

team "b" {
  upstream "v" {
    url = "https://v.example.com"
    headers = {
      X-One = "Bearer ${env("CURSOR")}" # ERROR: Reserved for the gateway
      X-Two = env("NEWER", "x")         # ERROR: Reserved for the gateway
    }
  }
}

team "a" {
  upstream "u" {
    url     = "https://u.example.com/mcp"
    headers = { Authorization = "Bearer ${input:api-key}" }  # ERROR: write "${env("api_key")}"
  }
}

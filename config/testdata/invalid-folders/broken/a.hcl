team "a" {
  upstream "a" {
    url = "https://a.example.com # ERROR: Missing quote; The text does not end in its line; write the missing "
  }
}

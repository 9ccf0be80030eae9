team "a" {
  upstream "one" {
    url    = "https://one.example.com"
    prefix = "docs" # ERROR: "docs" is a prefix of team "b" (testdata/invalid-folders/prefixes/b.hcl:2); set prefix
  }
}

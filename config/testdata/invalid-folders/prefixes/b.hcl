team "b" {
  upstream "docs" { url = "https://docs.example.com" } # ERROR: Prefix belongs to another team; "docs" is a prefix of team "a" (testdata/invalid-folders/prefixes/a.hcl:4); set prefix
}

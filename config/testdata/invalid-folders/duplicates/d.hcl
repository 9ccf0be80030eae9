team "t" { # ERROR: The team "t" stands at testdata/invalid-folders/duplicates/c.hcl:1
  upstream "u" { url = "https://u.example.com" } # ERROR: The upstream "u" stands at testdata/invalid-folders/duplicates/c.hcl:2
}

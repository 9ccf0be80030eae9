team "t" { # ERROR: The team "t" is already defined at testdata/invalid-folders/duplicates/d.hcl:1
  upstream "u" { url = "https://u.example.com" } # ERROR: The upstream "u" is already defined at testdata/invalid-folders/duplicates/d.hcl:2
}

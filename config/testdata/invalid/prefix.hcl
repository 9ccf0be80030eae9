gateway { separator = "--" }
team "a" {
  upstream "one" { url = "https://one.example.com" }
  upstream "two" {
    url    = "https://two.example.com"
    prefix = "one"
  }
  upstream "bare" {
    url    = "https://bare.example.com"
    prefix = ""
  }
  upstream "x--y" { url = "https://xy.example.com" } # ERROR: The label "x--y", which is the prefix, contains the separator "--"; set prefix
  upstream "end-" { url = "https://end.example.com" } # ERROR: contains the separator
}
team "b" {
  upstream "three" {
    url    = "https://three.example.com"
    prefix = "one"                       # ERROR: "one" is a prefix of team "a" (testdata/invalid/prefix.hcl:3); set prefix to something else
  }
  upstream "four" {
    url    = "https://four.example.com"
    prefix = ""                          # ERROR: "" is a prefix of team "a" (testdata/invalid/prefix.hcl:10)
  }
  upstream "five" {
    url    = "https://five.example.com"
    prefix = "a--b"                      # ERROR: The prefix "a--b" contains the separator
  }
  upstream "six" {
    url    = "https://six.example.com"
    prefix = "a b"                       # ERROR: is not a prefix
  }
}

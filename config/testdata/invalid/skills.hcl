team "stripping" {
  upstream "a" {
    url    = "https://a.example.com"
    skills = true
  }
  screen "s" {
    invisible = true
    action    = "strip"                  # ERROR: Skills cannot be stripped
  }
}
team "without" {
  screen "s" {
    invisible = true
    action    = "strip"
  }
}
team "wrong" {
  upstream "b" {
    url    = "https://b.example.com"
    skills = "all"                       # ERROR: must be true, false or "only"
  }
}

gateway {
  screen "s" {
    invisible = true
    action    = "strip"
  }
}
# The mistake is the team's: its file must not make one of the platform's.
team "t" {
  upstream "a" {
    url    = "https://a.example.com"
    skills = true                        # ERROR: Skills cannot be stripped
  }
}

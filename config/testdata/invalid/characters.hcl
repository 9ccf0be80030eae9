team "a" {
  members = ["user:al\u200bice", "group:\u3164", "user:\ue000", "user:\u202ebob", "user:zoë"] # ERROR: contains a character that people cannot see # ERROR: contains a character that people cannot see # ERROR: contains a character that people cannot see # ERROR: contains a character that people cannot see
  upstream "u1" {
    url    = "https://u.example.com"
    prefix = "git\u200b"                 # ERROR: contains U+200B, which people cannot see or tell from other characters
  }
  upstream "u2" {
    url    = "https://u.example.com"
    prefix = "\u202egit"                 # ERROR: contains U+202E
  }
  upstream "u3" {
    url    = "https://u.example.com"
    prefix = "g\u0069t\u3164"            # ERROR: contains U+3164
  }
  upstream "u4" {
    url    = "https://u.example.com"
    prefix = "größe-日本"
  }
  prompt "größe-日本.x" { name = "größe-日本.\u2060x" } # ERROR: contains U+2060
  prompt "größe-日本.y" { name = "größe-日本.y: a (b) + 1" }
}

team "a" {
  upstream "git" { url = "https://u.example.com" }
  upstream "docs" {
    url    = "https://u.example.com"
    prefix = "docs1"
  }
  upstream "notes" { url = "https://u.example.com" }
  upstream "own" { url = "https://u.example.com" }
  upstream "Own2" {
    url    = "https://u.example.com"
    prefix = "оwn" # its own team's
  }
}

team "c" {
  upstream "plain" {
    url    = "https://u.example.com"
    prefix = "x1"
  }
}

team "d" {
  upstream "styled" {
    url    = "https://u.example.com"
    prefix = "x1\ufe0f" # ERROR: is a prefix of team "c"
  }
}

team "b" {
  upstream "u1" {
    url    = "https://u.example.com"
    prefix = "gіt" # ERROR: People cannot tell "g\u0456t" from "git", a prefix of team "a"
  }
  upstream "u2" {
    url    = "https://u.example.com"
    prefix = "docsI" # ERROR: People cannot tell "docsI" from "docs1"
  }
  upstream "u3" {
    url    = "https://u.example.com"
    prefix = "notes․x" # ERROR: People cannot tell "notes\u2024x" from "notes"
  }
  upstream "u4" {
    url    = "https://u.example.com"
    prefix = ""
  }
  prompt "x" { name = "own․x" }       # ERROR: Name looks like another team's
  prompt "y" { name = "ówn.y" }
  prompt "z" { name = "gіt.z" }       # ERROR: cannot tell the beginning of "g\u0456t.z" from "git"
  prompt "u" { name = "оwո․more․u" } # ERROR: cannot tell the beginning of "\u043ew\u0578\u2024more\u2024u" from "own", a prefix of team "a"
}

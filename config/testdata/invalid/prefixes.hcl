allow "a" {
  hosts    = ["*"]
  prefixes = ["git", "git-*"]
}
allow "b" {
  hosts    = ["*"]
  prefixes = ["bee", ""]
}
allow "c" { hosts = ["*"] }
team "a" {
  upstream "git" { url = "https://a.example.com" }
  upstream "git-lab" { url = "https://a.example.com" }
  upstream "other" {
    url    = "https://a.example.com"
    prefix = "git-hub"
  }
  upstream "bare" {
    url    = "https://a.example.com"
    prefix = ""                          # ERROR: Not allowed for this team; Team "a" may not have names without a prefix; the platform team can add "" to prefixes in allow "a"
  }
  prompt "git.commit" { name = "git-lab.commit" }
  prompt "git.push" { name = "push" }    # ERROR: Team "a" may not have names without a prefix
  prompt "git.pull" { name = "bee.pull" } # ERROR: Team "a" may not use the prefix "bee"; the platform team can add it to prefixes in allow "a"
}
team "b" {
  upstream "bee" { url = "https://b.example.com" }
  upstream "giт" { url = "https://b.example.com" } # ERROR: Invalid upstream name
  upstream "tig" { url = "https://b.example.com" } # ERROR: Team "b" may not use the prefix "tig"
  upstream "wax" {
    url    = "https://b.example.com"
    prefix = ""
  }
  prompt "bee.sting" { name = "sting" }
  prompt "bee.hum" { name = "git.hum" }  # ERROR: Team "b" may not use the prefix "git"
}
team "c" {
  upstream "cat" { url = "https://c.example.com" } # ERROR: Team "c" may not use the prefix "cat"
}

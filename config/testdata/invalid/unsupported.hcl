admin {
  tls {}                                 # ERROR: admin.tls does not exist. The admin listener has no TLS of its own
}
team "a" {
  upstream "u" {
    url = "https://a.example.com"
  }
}
prompt "x" {}                            # ERROR: Misplaced block; prompt belongs in the team block
limit "x" {}                             # ERROR: Misplaced block; limit belongs in the expose, gateway or team block
screen "x" {}                            # ERROR: Misplaced block; screen belongs in
lock {}                                  # ERROR: Misplaced block; lock belongs in

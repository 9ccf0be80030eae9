admin {
  tls {}                                 # ERROR: admin.tls is not supported yet
}
team "a" {
  upstream "u" {
    url = "https://a.example.com"
  }
}
prompt "x" {}                            # ERROR: Misplaced block; prompt belongs in a team block
limit "x" {}                             # ERROR: Misplaced block; limit belongs in a gateway, team or expose block
screen "x" {}                            # ERROR: Misplaced block; screen belongs in
lock {}                                  # ERROR: Misplaced block; lock belongs in

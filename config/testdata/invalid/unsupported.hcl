admin {
  tls {}                                 # ERROR: admin.tls is not supported yet
}
team "a" {
  upstream "u" {
    url = "https://a.example.com"
  }
}
prompt "x" {}                            # ERROR: Not here; prompt belongs into a team block
limit "x" {}                             # ERROR: Not here; limit belongs into gateway, a team or an expose block
screen "x" {}                            # ERROR: Not here; screen belongs into
lock {}                                  # ERROR: Not here; lock belongs into

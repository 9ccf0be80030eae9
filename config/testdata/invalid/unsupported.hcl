admin {
  tls {}                                 # ERROR: admin.tls is not supported yet
}
team "a" {
  upstream "u" {
    url = "https://a.example.com"
  }
}
prompt "x" {}                            # ERROR: prompt is not supported yet
limit "x" {}                             # ERROR: limit is not supported yet
screen "x" {}                            # ERROR: screen is not supported yet
lock {}                                  # ERROR: lock is not supported yet

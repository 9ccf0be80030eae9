gateway { cursor_keys = ["short"] }      # ERROR: Invalid cursor_keys
cluster {
  store = "redis://store"
  tls { server_name = "store" }          # ERROR: tls without TLS
}

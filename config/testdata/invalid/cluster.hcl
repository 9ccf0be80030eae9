cluster {                                          # ERROR: Replicas share a store: set it # ERROR: No cursor_keys
  watch = true                                     # ERROR: watch
}
cluster {                                          # ERROR: cluster
  store = "https://store:6379"                     # ERROR: (sensitive) is not a redis or rediss URL
  tls { server_name = "store" }
  advertise = "10.0.0.3:8080"                      # ERROR: is not http or https, a host and a port
  shared_watch = true                              # ERROR: Remove it: each replica watches each server itself
}

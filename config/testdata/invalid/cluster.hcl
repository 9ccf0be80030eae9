cluster {                                          # ERROR: Replicas share a store: set it # ERROR: No cursor_keys
  watch = true                                     # ERROR: watch
}
cluster {                                          # ERROR: cluster
  store = "https://store:6379"                     # ERROR: (sensitive) is not a redis or rediss URL
  tls { server_name = "store" }
  shared_watch = true                              # ERROR: Remove it: each replica watches each server itself
}

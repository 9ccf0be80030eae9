gateway {
  listen = "127.0.0.1:8080"
}

admin {
  listen = "127.0.0.1:8081"
}

auth {
  jwt "idp" {
    issuer   = "http://127.0.0.1:9400"
    audience = "http://127.0.0.1:8080/mcp"
  }
}

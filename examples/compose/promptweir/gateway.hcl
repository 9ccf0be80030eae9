# The platform's file of examples/compose.

gateway {
  listen        = "0.0.0.0:8080" # within the container; compose publishes it on this machine's loopback
  allowed_hosts = ["promptweir"] # by which Prometheus calls the admin listener
  drain_delay   = "5s"
  drain_timeout = "30s"
}

# Prometheus is in another container. Pages for operators need the token, which is a throw-away example: anybody can read it here.
admin {
  listen       = "0.0.0.0:8081"
  token_sha256 = sha256("compose-operator")
}

# Throw-away examples, too. Make your own with: promptweir token LABEL --group NAME
auth {
  token "alice" { # the token is compose-alice
    sha256 = sha256("compose-alice")
    groups = ["operations"]
  }
}

allow "operations" { hosts = ["127.0.0.1"] }
allow "platform" { hosts = ["everything"] }

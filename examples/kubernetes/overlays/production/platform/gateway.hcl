# The platform's file. Each team has one of its own in teams/. Paths are the same here and in the pods, beneath /etc/promptweir.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"

  # Clients in the cluster, who need no ingress: namespaces with the label prompts.example.com/clients, see egress.yaml.
  allowed_hosts = ["promptweir.promptweir.svc.cluster.local"]

  # The pods of the ingress controller: what they say of a client's address is believed.
  trusted_proxies = ["10.0.0.0/8"]

  # One key a line, the same in each replica. To replace it: put the new one above the old one, and remove that a day later.
  cursor_keys = compact(split("\n", file("../secrets/promptweir/cursor-keys")))

  state_dir = "/var/lib/promptweir"

  # terminationGracePeriodSeconds is the sum of both and 15 seconds, or more.
  drain_delay   = "10s"
  drain_timeout = "30s"
}

admin {
  listen       = "0.0.0.0:8081"
  token_sha256 = trimspace(file("../secrets/promptweir/admin-token-sha256"))
}

auth {
  jwt "corp" {
    issuer   = "https://login.example.com"
    audience = "https://prompts.example.com/mcp"
  }
}

# What each team's file may use.
allow "docs" {
  prefixes = ["handbook"]
  files    = ["teams/docs/*"]
}
allow "payments" {
  prefixes = ["billing"]
  hosts    = ["*.payments.svc.cluster.local"]
  files    = ["secrets/team-payments/*"]
}

gateway {
  trusted_proxies = ["10.0.0.0/8"]       # ERROR: gateway.trusted_proxies is not supported yet
  tls {                                  # ERROR: gateway.tls is not supported yet
    cert_file = "x"
  }
}
admin {
  token_sha256 = "9f86d081884c7d659a2f"  # ERROR: admin.token_sha256 is not supported yet
}
auth {
  as = "corp"                            # ERROR: auth.as is not supported yet
  jwt "corp" {                           # ERROR: auth.jwt is not supported yet
    issuer = "https://idp.example.com"
  }
  token "ci" {
    sha256 = sha256("x")
    as     = "corp"                      # ERROR: token.as is not supported yet
  }
}
team "a" {
  limit "x" {}                           # ERROR: team.limit is not supported yet
  upstream "u" {
    url = "https://a.example.com"
  }
  expose "x" {
    prompts = ["*"]
    to      = ["*"]
    when    = length(prompt.arguments) <= 5 # ERROR: expose.when is not supported yet
  }
}
prompt "x" {}                            # ERROR: prompt is not supported yet
limit "x" {}                             # ERROR: limit is not supported yet
screen "x" {}                            # ERROR: screen is not supported yet
lock {}                                  # ERROR: lock is not supported yet

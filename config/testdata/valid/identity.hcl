gateway {
  listen          = "0.0.0.0:8443"
  public_url      = "https://prompts.example.com"
  signing_keys    = [file("secrets/payments/client.key")]
  trusted_proxies = ["10.0.0.0/8", "192.0.2.7", "::ffff:192.0.2.8", "2001:db8::/32"]
  tls {
    cert_file      = "secrets/payments/client.crt"
    key_file       = "secrets/payments/client.key"
    client_ca_file = "secrets/payments/ca.crt"
    as             = "machine"
  }
}
admin {
  listen       = "127.0.0.1:0"
  token_sha256 = sha256("admin")
}
team "a" {
  upstream "a" {
    url = "https://mcp.example.com"
    oauth {
      token_url        = "https://idp.example.com/token"
      client_id        = "promptweir"
      private_key_file = "secrets/payments/client.key"
      issuer           = "https://idp.example.com"
    }
    assertion {
      header   = "x-caller"
      audience = "docs"
      claims   = ["groups", "email"]
    }
  }
}
auth {
  token "ci" {
    sha256 = sha256("ci")
    as     = "token"
  }
  token "cd" {
    sha256 = sha256("cd")
    as     = "token"
  }
  jwt "corp" {
    issuer        = "https://idp.example.com/tenant/"
    jwks_url      = "https://keys.example.com/jwks.json"
    audience      = "https://prompts.example.com/mcp"
    subject_claim = "email"
    groups_claim  = "https://example.com/roles"
    algorithms    = ["RS256", "EdDSA"]
    leeway        = "1m"
    scopes        = ["prompts:read", "prompts:list"]
    as            = "corp"
  }
  jwt "partner" {
    issuer   = "http://localhost:9000"
    audience = env("LISTEN")
    scopes   = ["read"]
    as       = "partner"

    client_id      = "0a1b"
    callback_port  = 33418
    request_scopes = ["https://prompts.example.com/mcp/read"]
  }
}

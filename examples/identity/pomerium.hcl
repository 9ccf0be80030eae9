# Google accounts, through Pomerium. By its documents, not run here.
#
# Google's access tokens are for Google alone. Pomerium in front of the gateway signs people in with Google, is the
# authorization server of MCP clients, and sends a JWT of its own in a header.
#
# 1. In Pomerium, set idp_provider to google, and a signing_key (ES256).
# 2. Add a route from https://prompts.example.com to the gateway with mcp: {server: {}}, pass_identity_headers: true, and a policy.
#    The issuer and the audience of the JWT are the route's host name.
# 3. Let nothing but Pomerium reach the gateway: what comes past it needs a JWT as well, but spares Pomerium's policy.
#
# Clients: all that sign in by the specification, at Pomerium, with nothing but the URL.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"
}

auth {
  jwt "pomerium" {
    header        = "X-Pomerium-Jwt-Assertion"
    issuer        = "prompts.example.com"
    audience      = "prompts.example.com"
    jwks_url      = "https://prompts.example.com/.well-known/pomerium/jwks.json"
    algorithms    = ["ES256"]
    subject_claim = "email"
  }
}

team "payments" {
  members = ["group:payments@example.com", "user:ann@example.com"]
  upstream "billing" { url = "https://billing.example.com/mcp" }
}

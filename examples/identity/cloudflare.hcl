# Cloudflare Access. By its documents, not run here.
#
# 1. Add a self-hosted application for prompts.example.com with a policy, and turn on managed OAuth for it: Access is then the
#    authorization server of MCP clients. Its Application Audience (AUD) tag is the audience.
# 2. Connect the gateway by a tunnel, so that nothing reaches it past Access.
#
# Access has no groups of its own in the JWT: name people, or have the identity provider's groups as a custom claim.
#
# Clients: all that sign in by the specification, at Access, with nothing but the URL.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"
}

auth {
  jwt "access" {
    header        = "Cf-Access-Jwt-Assertion"
    issuer        = "https://example.cloudflareaccess.com"
    audience      = "0000000000000000000000000000000000000000000000000000000000000000"
    jwks_url      = "https://example.cloudflareaccess.com/cdn-cgi/access/certs"
    subject_claim = "email"
  }
}

team "payments" {
  members = ["user:ann@example.com", "user:bob@example.com"]
  upstream "billing" { url = "https://billing.example.com/mcp" }
}

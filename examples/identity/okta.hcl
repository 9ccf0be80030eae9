# Okta. By its documents, not run here.
#
# 1. In an authorization server of Security > API (the org's own issues no tokens for others), set the audience to the
#    endpoint's URL, add the scope prompts.read, and a claim groups of the access token with a filter of groups.
# 2. Add a native application with PKCE and the redirect URIs of gateway/clientsetup. Its id is client_id.
# 3. Add an access policy and a rule that let this application request the scope.
#
# Clients: all with client_id; Okta lets no unknown client register.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"
}

auth {
  jwt "okta" {
    issuer        = "https://example.okta.com/oauth2/default"
    audience      = "https://prompts.example.com/mcp"
    scopes        = ["prompts.read"]
    client_id     = "0oa0000000000000000"
    callback_port = 33418
  }
}

team "payments" {
  members = ["group:payments"]
  upstream "billing" { url = "https://billing.example.com/mcp" }
}

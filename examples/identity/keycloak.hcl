# Keycloak 26. By its documents, not run here.
#
# 1. Create a client scope prompts.read with the mappers "Audience" (included custom audience: the endpoint's URL, in the access
#    token) and "Group Membership" (claim groups, without the full path). Keycloak ignores the parameter resource, so the
#    audience has to come from here.
# 2. Create a public client with PKCE (S256), the redirect URIs of gateway/clientsetup, and prompts.read as an optional scope.
#    Its id is client_id.
#
# Clients: all with client_id. Metadata documents are an experimental feature (cimd), and registration has policies of hosts.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"
}

auth {
  jwt "keycloak" {
    issuer        = "https://sso.example.com/realms/main"
    audience      = "https://prompts.example.com/mcp"
    scopes        = ["prompts.read"]
    subject_claim = "preferred_username"
    client_id     = "mcp-clients"
    callback_port = 33418
  }
}

team "payments" {
  members = ["group:payments"]
  upstream "billing" { url = "https://billing.example.com/mcp" }
}

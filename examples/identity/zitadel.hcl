# ZITADEL. By its documents, not run here.
#
# 1. Create a project, and in it a native application with PKCE, the redirect URIs of gateway/clientsetup, and the access token
#    type JWT. The project's id is the audience, the application's client_id.
# 2. Roles are an object in the token, which no group can be read from: add an action that sets the claim groups to a list.
#
# Clients: all with client_id. They request the project's audience by a scope; tokens have no claim of scopes, so the gateway
# requires none.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"
}

auth {
  jwt "zitadel" {
    issuer         = "https://example.eu1.zitadel.cloud"
    audience       = "300000000000000001"
    request_scopes = ["openid", "urn:zitadel:iam:org:project:id:300000000000000001:aud"]
    client_id      = "300000000000000002"
    callback_port  = 33418
  }
}

team "payments" {
  members = ["group:payments"]
  upstream "billing" { url = "https://billing.example.com/mcp" }
}

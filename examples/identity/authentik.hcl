# authentik. By its documents, not run here.
#
# 1. Create an OAuth2/OpenID provider with an application: client type public, the redirect URIs of gateway/clientsetup, a
#    signing key (or tokens are signed with a secret), and the subject mode "Based on the User's username".
# 2. Its client id is the audience of its tokens, and client_id. The scope profile puts the groups into the token.
#
# Clients: all with client_id, but Zed, which asks for a secret where a provider knows no other way to register.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"
}

auth {
  jwt "authentik" {
    issuer         = "https://auth.example.com/application/o/prompts/" # with the slash
    audience       = "promptweir"
    request_scopes = ["openid", "profile", "email"]
    client_id      = "promptweir"
    callback_port  = 33418
  }
}

team "payments" {
  members = ["group:payments"]
  upstream "billing" { url = "https://billing.example.com/mcp" }
}

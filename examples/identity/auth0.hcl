# Auth0. By its documents, not run here.
#
# 1. Create an API whose identifier is the endpoint's URL, with RS256 and the permission prompts.read. In the tenant's advanced
#    settings, turn on the Resource Parameter Compatibility Profile: clients send resource, and Auth0 wants audience.
# 2. Turn on client ID metadata documents, and promote a connection to the domain level, for clients that are not registered.
# 3. Add an action after login that sets the claim https://prompts.example.com/groups of the access token.
#
# Clients: Claude Code, VS Code and others with a metadata document sign in with nothing but the URL; for the rest, create a
# native application with the redirect URIs of gateway/clientsetup, and set client_id.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"
}

auth {
  jwt "auth0" {
    issuer       = "https://example.eu.auth0.com/" # with the slash
    audience     = "https://prompts.example.com/mcp"
    scopes       = ["prompts.read"]
    groups_claim = "https://prompts.example.com/groups"
  }
}

team "payments" {
  members = ["group:payments"]
  upstream "billing" { url = "https://billing.example.com/mcp" }
}

# Microsoft Entra ID. By its documents, and run here against a double of what it refuses; not against Entra itself.
#
# 1. Register an application for the gateway. Under "Expose an API", set the Application ID URI to the endpoint's URL,
#    https://prompts.example.com/mcp, whose domain has to be verified, and add the scope prompts.read. In the manifest, set
#    requestedAccessTokenVersion to 2.
# 2. Under "App roles", add a role for each group, here payments, and assign groups to it in the enterprise application. A
#    token lists up to 200 groups of a person, and none of more; roles have no such limit.
# 3. Register another application for clients, as "Mobile and desktop", with the redirect URIs of gateway/clientsetup, and
#    permission for prompts.read. Its id is client_id. Without it, clients that Entra knows by their documents (preview) work.
#
# Clients: VS Code signs in with its own application; all others with client_id.
# A client requests the scope by its full name, and the token has the short one, so both are written.

gateway {
  listen     = "0.0.0.0:8080"
  public_url = "https://prompts.example.com"
}

auth {
  jwt "entra" {
    issuer         = "https://login.microsoftonline.com/11111111-1111-1111-1111-111111111111/v2.0" # of the tenant
    audience       = "22222222-2222-2222-2222-222222222222"                                        # the gateway's application
    scopes         = ["prompts.read"]
    request_scopes = ["https://prompts.example.com/mcp/prompts.read"]
    subject_claim  = "oid"
    groups_claim   = "roles"
    client_id      = "33333333-3333-3333-3333-333333333333" # the clients' application
    callback_port  = 33418
  }
}

team "payments" {
  members = ["group:payments"]
  upstream "billing" { url = "https://billing.example.com/mcp" }
}

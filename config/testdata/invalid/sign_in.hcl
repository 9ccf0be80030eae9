auth {
  jwt "entra" {
    issuer   = "https://login.microsoftonline.com/0a1b/v2.0" # WARNING: No request_scopes; Entra wants a scope to be requested by its full name
    audience = "0a1b"
    scopes   = ["prompts.read"]
    as       = "entra"
  }
  jwt "old" {
    issuer         = "https://sts.windows.net/0a1b/"
    audience       = "0a1b"
    request_scopes = ["a b"]             # ERROR: Invalid request_scopes; "a b" is not a scope
    as             = "old"
  }
}

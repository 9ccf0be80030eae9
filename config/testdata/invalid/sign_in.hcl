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
    client_id      = "a\nb"              # ERROR: Invalid client_id; "a\nb" has a line break
    client_secret  = "hunter2"           # ERROR: Unknown attribute
    callback_port  = 65536               # ERROR: callback_port must be a whole number from 1 to 65535
    as             = "old"
  }
  jwt "port" {
    issuer        = "https://idp.example.com"
    audience      = "x"
    callback_port = 33418                # ERROR: callback_port without client_id
    as            = "port"
  }
}

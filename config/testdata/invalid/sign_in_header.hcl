auth {
  token "ci" {                           # ERROR: Two credentials; jwt "access" reads Cf-Access-Jwt-Assertion alone
    sha256 = sha256("ci")
    as     = "ci"
  }
  jwt "access" {
    issuer         = "https://example.cloudflareaccess.com"
    audience       = "0a1b"
    header         = "cf-access-jwt-assertion"
    request_scopes = ["read"]            # ERROR: request_scopes beside header
    client_id      = "0a1b"              # ERROR: client_id beside header; The proxy that sets Cf-Access-Jwt-Assertion signs people in
    as             = "access"
  }
  jwt "bearer" {                         # ERROR: Two credentials
    issuer   = "https://idp.example.com"
    audience = "x"
    as       = "bearer"
  }
  jwt "other" {                          # ERROR: Two credentials
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "X-Other"
    as       = "other"
  }
  jwt "bare" {
    issuer   = "pomerium.example.com"    # ERROR: Invalid issuer; "pomerium.example.com" is a host name, from which no keys are discovered; set jwks_url.
    audience = "x"
    header   = "Cf-Access-Jwt-Assertion"
    as       = "bare"
  }
  jwt "a" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "authorization"           # ERROR: Invalid header; "authorization" has a meaning of its own
    as       = "a"
  }
  jwt "b" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "cookie"                  # ERROR: has a meaning of its own
    as       = "b"
  }
  jwt "c" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "Host"                    # ERROR: has a meaning of its own
    as       = "c"
  }
  jwt "d" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "Forwarded"               # ERROR: has a meaning of its own
    as       = "d"
  }
  jwt "e" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "x-forwarded-access-token" # ERROR: has a meaning of its own
    as       = "e"
  }
  jwt "f" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "MCP-Identity"            # ERROR: has a meaning of its own
    as       = "f"
  }
  jwt "g" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "Proxy-Authorization"     # ERROR: has a meaning of its own
    as       = "g"
  }
  jwt "h" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "upgrade"                 # ERROR: has a meaning of its own
    as       = "h"
  }
  jwt "i" {
    issuer   = "https://idp.example.com"
    audience = "x"
    header   = "two words"               # ERROR: is not a header name
    as       = "i"
  }
}

gateway {
  listen          = "0.0.0.0:8443"       # WARNING: No public_url; Clients without a token are sent to public_url to find the issuer
  trusted_proxies = ["proxy", "10.0.0.1/8", "0.0.0.0/0", "fe80::1%eth0"] # ERROR: "proxy" is not an address or a network # ERROR: "10.0.0.1/8" has host bits set; write "10.0.0.0/8" # ERROR: "0.0.0.0/0" covers every address # ERROR: "fe80::1%eth0" is not an address or a network
  tls {                                  # ERROR: Missing as
    cert_file      = "pem/client.crt"
    key_file       = "pem/client.key"
    client_ca_file = "pem/ca.crt"
    ca_file        = "pem/ca.crt"        # ERROR: Unknown attribute; tls.ca_file does not exist
  }
}
admin {
  token_sha256 = "9f86d081884c7d659a2f"  # ERROR: Invalid token_sha256; (sensitive) is not 64 hexadecimal digits
}
auth {
  as = "corp"                            # ERROR: as belongs in the jwt or token block
  token "ci" {                           # ERROR: Missing as; There are several sources of identities
    sha256 = sha256("x")
  }
  token "cd" {
    sha256 = sha256("y")
    as     = "corp"
  }
  jwt "corp" {                           # ERROR: Duplicate as; "corp" is already the prefix of another source's subjects, at testdata/invalid/identity.hcl:19
    issuer   = "https://idp.example.com"
    audience = "https://prompts.example.com/mcp"
    as       = "corp"
  }
  jwt "corp" {                           # ERROR: Duplicate name; The jwt "corp" is already defined at
    issuer        = "http://idp.example.com"            # ERROR: Invalid issuer; "http://idp.example.com" would let anyone on the network path forge tokens
    jwks_url      = "https://idp.example.com/keys#1"    # ERROR: Invalid jwks_url; "https://idp.example.com/keys#1" has a fragment
    audience      = "two words"          # ERROR: Invalid audience; "two words" is not an audience
    subject_claim = ""                   # ERROR: Invalid subject_claim
    groups_claim  = 7.5
    algorithms    = ["none", "HS256", "RS257"] # ERROR: Invalid algorithms; "none" would accept tokens that anyone can make # ERROR: "HS256" would accept tokens that anyone can make # ERROR: "RS257" is not one of: RS256
    leeway        = "1h"                 # ERROR: Invalid leeway; "1h" is not a duration from "0s" to "5m"
    scopes        = ["a b"]              # ERROR: Invalid scopes; "a b" is not a scope
    as            = "a/b"                # ERROR: Invalid as; "a/b" cannot be a prefix of subjects
  }
  jwt "bare" {                           # ERROR: Missing issuer # ERROR: Missing audience; Without it, the gateway would accept tokens for other services # ERROR: Missing as
    algorithms = []                      # ERROR: No token could be accepted
    hmac_key   = "hunter2"               # ERROR: Unknown attribute
  }
  jwt "query" {
    issuer   = "https://idp.example.com?tenant=1" # ERROR: has a query, which an issuer cannot have
    audience = env("SECRET")
    leeway   = "soon"                    # ERROR: "soon" is not a duration
    as       = "query"
  }
  jwt {                                  # ERROR: Write jwt "NAME" { … }
    issuer   = "https://a:hunter2@idp.example.com" # ERROR: (sensitive) has a user or password
    audience = "x"
    as       = "nobody"
  }
}

# Nothing here makes a mistake of another file.
team "z" {}
gateway { listen = "x" }       # ERROR: move gateway, auth to a file without one, such as gateway.hcl.
auth {
  token "x" { sha256 = "zz" }
  jwt "z" {
    issuer   = "https://i.example.com"
    audience = "x"
  }
}

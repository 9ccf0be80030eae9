# All tokens are one source of identities, which needs no as.
auth {
  anonymous = true
  token "a" { sha256 = sha256("a") }
  token "b" {
    sha256 = sha256("b")
    as     = "b"
  }
}

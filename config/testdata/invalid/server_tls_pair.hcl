gateway {
  tls {
    cert_file = "pem/client.crt"
    key_file  = "pem/other.key"          # ERROR: Key does not match
    as        = "machine"                # ERROR: as without client_ca_file
  }
}
auth {}                                  # ERROR: Nobody can authenticate; Give auth a token or a jwt block

team "a" {
  upstream "u01" {
    url = "https://a.example.com"
    oauth {
      token_url        = "https://sso.example.com/token"
      client_id        = "x"
      private_key_file = "pem/client.crt"     # ERROR: Invalid private_key_file; "pem/client.crt" contains no PEM private key
      issuer           = "http://sso.example.com" # ERROR: Invalid issuer
    }
  }
  upstream "u02" {
    url = "https://a.example.com"
    oauth {
      token_url        = "https://sso.example.com/token"
      client_id        = "x"
      private_key_file = "pem/garbage.key"    # ERROR: "pem/garbage.key" contains no private key that can sign
    }
  }
  upstream "u03" {
    url = "https://a.example.com"
    oauth {
      token_url        = "https://sso.example.com/token"
      client_id        = "x"
      private_key_file = "pem/encrypted.key"  # ERROR: is encrypted
    }
  }
}

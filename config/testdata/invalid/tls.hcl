team "a" {
  upstream "a" {
    url = "http://a.example.com"         # ERROR: tls without https; "http://a.example.com" is not reached over TLS
    tls { ca_file = "pem/ca.crt" }
  }
  upstream "b" {
    url = "http://b.example.com/${env("SECRET")}" # ERROR: tls without https; (sensitive) is not reached over TLS
    tls { ca_file = "pem/ca.crt" }
  }
  upstream "c" {
    command = ["npx"]
    tls { ca_file = "pem/ca.crt" }       # ERROR: tls without url
  }
  upstream "d" {
    url = "https://d.example.com"
    tls {}                               # ERROR: Empty tls
  }
  upstream "e" {
    url = "https://e.example.com"
    tls { server_name = "e" }
    tls { server_name = "e" }            # ERROR: Duplicate block
  }
  upstream "f" {
    url = "https://f.example.com"
    tls {
      ca_file     = "pem/gone.crt"       # ERROR: Cannot read file; "pem/gone.crt": no such file or directory; paths are relative to the folder of this file
      cert_file   = "pem"                # ERROR: Cannot read file; "pem": it is not a regular file
      key_file    = "/dev/null"          # ERROR: it is not a regular file
      server_name = "f.example.com:443"  # ERROR: Invalid server_name
      insecure    = true                 # ERROR: tls.insecure does not exist
    }
  }
  upstream "g" {
    url = "https://g.example.com"
    tls { cert_file = "pem/client.crt" } # ERROR: Incomplete key pair; cert_file and key_file go together; set both or neither
  }
  upstream "h" {
    url = "https://h.example.com"
    tls {                                # ERROR: Incomplete key pair
      ca_file  = "pem/binary.crt"        # ERROR: Invalid ca_file; "pem/binary.crt" contains no PEM certificate, which begins with -----BEGIN CERTIFICATE-----
      key_file = "pem/client.key"
    }
  }
  upstream "i" {
    url = "https://i.example.com"
    tls {
      ca_file   = "pem/half-good.crt"    # ERROR: Invalid ca_file; "pem/half-good.crt" contains a certificate that cannot be parsed, number 2 in the file
      cert_file = "pem/client.crt"
      key_file  = "pem/other.key"        # ERROR: Key does not match
    }
  }
  upstream "j" {
    url = "https://j.example.com"
    tls {
      ca_file   = "pem/cut.crt"          # ERROR: contains a truncated certificate
      cert_file = "pem/garbage.crt"      # ERROR: contains a certificate that cannot be parsed, number 1 in the file
      key_file  = "pem/encrypted.key"    # ERROR: Invalid key_file; "pem/encrypted.key" is encrypted
    }
  }
  upstream "k" {
    url = "https://k.example.com"
    tls {
      cert_file = "pem/client.crt"
      key_file  = "pem/client.crt"       # ERROR: Invalid key_file; "pem/client.crt" contains no PEM private key
    }
  }
  upstream "l" {
    url = "https://l.example.com"
    tls {
      ca_file   = file("pem/ca.crt")     # ERROR: Invalid ca_file; (sensitive) is PEM itself; write the path of a file
      cert_file = "pem/client.crt"
      key_file  = "pem/garbage.key"      # ERROR: Key does not match
    }
  }
  upstream "m" {
    url = "https://m.example.com"
    tls {                                # ERROR: Incomplete key pair
      ca_file     = env("SECRET")        # ERROR: Cannot read file; (sensitive): no such file
      cert_file   = "pem/client.crt"
      key_file    = null
      server_name = "bücher.example"     # ERROR: Invalid server_name; "bücher.example" is not a host
    }
  }
  upstream "n" {
    url = "https://n.example.com"
    tls {
      cert_file = "pem/client.crt"
      key_file  = "-----BEGIN PRIVATE KEY-----\nhunter2" # ERROR: (sensitive) is PEM itself
    }
  }
}

gateway {
  tls {                                  # ERROR: Missing cert_file; A server needs a certificate: set cert_file and key_file.
    client_ca_file = "pem/binary.crt"    # ERROR: Invalid client_ca_file; "pem/binary.crt" contains no PEM certificate
  }
}
auth {}

gateway { cursor_keys = [base64encode("0123456789abcdef0123456789abcdef")] }
cluster {
  store     = "redis://store"
  advertise = "https://10.0.0.3:8443"    # ERROR: No public_url
}

gateway {
  listen          = "8080"                 # ERROR: Invalid listen; "8080" is not HOST:PORT
  path            = "mcp"                  # ERROR: Invalid path; "mcp" does not start with "/"
  public_url      = "prompts.example.com"  # ERROR: Invalid public_url; "prompts.example.com" is not an http or https URL
  page_size       = 10001                  # ERROR: page_size must be a whole number from 1 to 10000
  separator       = "a b"                  # ERROR: Invalid separator
  cursor_keys     = ["c2hvcnQ=", "!"]      # ERROR: Invalid cursor_keys; (sensitive) is not base64 of 32 bytes # ERROR: Invalid cursor_keys
  allowed_hosts   = [
    "https://x.example.com",               # ERROR: is not a host
    "*.example.com",                       # ERROR: is not a host
    "a.example:8443",                      # ERROR: "a.example:8443" has a port, and ports are ignored; write the host alone
    "[::1]:80",                            # ERROR: has a port
    "10.0.0.7:",                           # ERROR: has a port
    "[fe80::1%eth0]",                      # ERROR: is not a host
    "fe80::1%eth0",                        # ERROR: is not a host
    "[a.example]",                         # ERROR: is not a host
    "",                                    # ERROR: is not a host
  ]
  allowed_origins = [
    "https://x.example.com",
    "https://x.example.com/path",          # ERROR: is not an origin
    "x.example.com",                       # ERROR: is not an origin
    "http://*",                            # ERROR: is not an origin
    "https://*",                           # ERROR: is not an origin
    "moz-extension://*",
    "moz-extension://*.a",                 # ERROR: is not an origin
    "file:///",                            # ERROR: is not an origin
    "*",                                   # ERROR: is not an origin
    "https://*.example.com",               # ERROR: is not an origin
    "https://x.example.com/",              # ERROR: is not an origin
    "https://x.example.com?",              # ERROR: is not an origin
    "https://me@x.example.com",            # ERROR: is not an origin
    "https://",                            # ERROR: is not an origin
    "https:x.example.com",                 # ERROR: is not an origin
    "https://[fe80::1%25lo]",              # ERROR: is not an origin
    "HTTPS://x.example.com",               # ERROR: is not an origin
    "https://X.example.com",               # ERROR: is not in the form browsers send
    "https://bücher.example",              # ERROR: is not in the form browsers send
    "https://x.example.com:",              # ERROR: has a port browsers never send
    "https://x.example.com:0",             # ERROR: has a port browsers never send
    "https://x.example.com:443",           # ERROR: has a port browsers never send
    "http://[::1]:80",                     # ERROR: has a port browsers never send
    "http://[::1]:443",
  ]
  conflict     = "frist"                   # ERROR: is not one of: drop, first. Did you mean "first"
  instructions = ["no"]                    # ERROR: instructions must be a string
  state_dir    = ""                        # ERROR: Invalid state_dir; "" is not the path of a folder
}

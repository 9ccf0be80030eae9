gateway {
  listen          = "8080"                 # ERROR: Invalid listen; "8080" is not HOST:PORT
  path            = "mcp"                  # ERROR: Invalid path; "mcp" does not start with "/"
  public_url      = "prompts.example.com"  # ERROR: Invalid public_url; "prompts.example.com" is not an http or https URL
  page_size       = 1001                   # ERROR: page_size must be a whole number from 1 to 1000
  separator       = "a b"                  # ERROR: Invalid separator
  cursor_keys     = ["c2hvcnQ=", "!"]      # ERROR: Invalid cursor_keys; (sensitive) is not base64 of 32 bytes # ERROR: Invalid cursor_keys
  allowed_hosts   = ["https://x.example.com", "*.example.com"] # ERROR: is not a host or HOST:PORT # ERROR: is not a host or HOST:PORT
  allowed_origins = [
    "https://x.example.com",
    "https://x.example.com/path",          # ERROR: is not an origin
    "x.example.com",                       # ERROR: is not an origin
  ]
  conflict     = "frist"                   # ERROR: is not one of: drop, first. Did you mean "first"
  instructions = ["no"]                    # ERROR: instructions must be a string
  state_dir    = ""                        # ERROR: Invalid state_dir; "" is not the path of a folder
}

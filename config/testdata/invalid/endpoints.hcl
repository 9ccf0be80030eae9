team "a" {
  upstream "a" {
    url     = "https://a.example.com"
    command = ["npx"]                    # ERROR: Two ways to reach one upstream; url and command are mutually exclusive
    files   = ["*.md"]                   # ERROR: url and files are mutually exclusive
  }
  upstream "b" {
    urls = ["https://a.example.com", "https://b.example.com"] # ERROR: upstream.urls does not exist. Write an upstream block for each address, all with one prefix
  }
  upstream "e" { url = null }            # ERROR: Invalid url; No address is given
  upstream "f" { url = ["https://f.example.com"] } # ERROR: url must be a string
  upstream "g" {
    url       = "g.example.com"          # ERROR: Invalid upstream URL; "g.example.com" is not an http or https URL
    env       = { A = "b" }              # ERROR: A server behind a url gets no environment
    transport = "stdio"                  # ERROR: stdio with command
  }
  upstream "h" { url = "https://me:hunter2@g.example.com" } # ERROR: Invalid upstream URL; (sensitive) has a user or password
  upstream "l" {
    url    = "https://a.example.com/mcp"
    prefix = "shared"
  }
  upstream "m" {
    url    = "https://b.example.com/mcp"
    prefix = "shared"
  }
}

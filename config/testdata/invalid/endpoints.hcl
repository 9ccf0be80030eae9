team "a" {
  upstream "a" {
    url  = "https://a.example.com"
    urls = ["https://b.example.com"]     # ERROR: Two ways to reach one upstream; url and urls are mutually exclusive
  }
  upstream "b" {
    url     = "https://a.example.com"
    urls    = ["https://b.example.com"]  # ERROR: url and urls are mutually exclusive
    command = ["npx"]                    # ERROR: url and command are mutually exclusive
  }
  upstream "c" {
    urls    = ["https://b.example.com"]
    command = ["npx"]                    # ERROR: urls and command are mutually exclusive
  }
  upstream "d" { urls = [] }             # ERROR: Invalid urls; No address is given
  upstream "e" { url = null }            # ERROR: Invalid url; No address is given
  upstream "f" { urls = "https://f.example.com" } # ERROR: urls must be a list of strings
  upstream "g" {
    urls = [
      "https://g.example.com/mcp",
      "g.example.com",                   # ERROR: Invalid upstream URL; "g.example.com" is not an http or https URL
      "https://me:hunter2@g.example.com", # ERROR: Invalid upstream URL; (sensitive) has a user or password
      "https://G.Example.com.:443/mcp",  # ERROR: Duplicate upstream URL; "https://G.Example.com.:443/mcp" is already in the list
      "https://g.example.com/mcp?x=1",
      "https://g.example.com/MCP",
      "https://g.example.com:8443/mcp",
      null,                              # ERROR: An element is null
    ]
    env       = { A = "b" }              # ERROR: A server behind a url gets no environment
    transport = "stdio"                  # ERROR: stdio with command
  }
  upstream "h" {
    urls = ["https://h.example.com/", "https://h.example.com"] # ERROR: "https://h.example.com" is already in the list
  }
  upstream "i" {
    urls = formatlist("https://i.example.com/%s", split("", env("SECRET"))) # ERROR: Duplicate upstream URL; (sensitive) is already in the list # ERROR: (sensitive) is already in the list
  }
  upstream "k" {
    urls = formatlist("https://k.example.com/%s", split("", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.")) # ERROR: An upstream can have at most 64 addresses, and this one has 65
  }
  upstream "l" {
    urls = formatlist("https://k.example.com/%s", split("", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"))
  }
}

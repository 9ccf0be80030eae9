team "a" {
  upstream "u" {
    url = "https://u.example.com"
    headers = {
      mcp-session-id = "x"               # ERROR: "mcp-session-id" is set by the gateway itself
      HOST           = "x"               # ERROR: "HOST" is set by the gateway itself
      content-type   = "x"               # ERROR: is set by the gateway itself
      Accept         = "x"               # ERROR: is set by the gateway itself
      Connection     = "x"               # ERROR: is set by the gateway itself
      "Not A Token"  = "x"               # ERROR: is not a header name
      ""             = "x"               # ERROR: is not a header name
      X-Line         = "hunter2\n"       # ERROR: "X-Line" has a value with a line break
      X-Null         = null              # ERROR: "X-Null" is null
      X-Twice        = "1"
      x-twice        = "2"               # ERROR: "x-twice" is already in the map
      Accept-Language = "de"
    }
  }
  upstream "v" {
    command = ["npx"]
    env = {
      "A=B" = "x"                        # ERROR: cannot be in an environment
      A     = "x"
      "A"   = "y"                        # ERROR: "A" is already in the map
    }
  }
  upstream "w" {
    url     = "https://w.example.com"
    headers = ["x"]                      # ERROR: headers must be a map of strings
  }
  upstream "merged" {
    url     = "https://merged.example.com"
    headers = merge({ authorization = "hunter2", X-A = "1" }, { Authorization = "hunter2", X-B = "2" }) # ERROR: Duplicate name in headers; "authorization" is already in the map, as "Authorization"; remove one of the two.
  }
  upstream "computed" {
    url     = "https://computed.example.com"
    headers = { X-Key = "1", (lower("X-KEY")) = "2", X-Other = "3" } # ERROR: "x-key" is already in the map, as "X-Key"
  }
  upstream "reserved" {
    url     = "https://reserved.example.com"
    headers = merge({ HOST = "x" }, { mcp-Session-id = "x" }, { (lower("Connection")) = "x" }) # ERROR: "HOST" is set by the gateway itself # ERROR: "mcp-Session-id" is set by # ERROR: "connection" is set by
  }
  upstream "x" {
    url     = "https://x.example.com"
    headers = { X-Failed = tonumber("hunter2") } # ERROR: does not accept one of its arguments
  }
}

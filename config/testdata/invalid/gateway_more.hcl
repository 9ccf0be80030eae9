gateway {
  listen     = "127.0.0.1:99999"         # ERROR: is not HOST:PORT
  path       = "/metrics"                # ERROR: is reserved by the gateway
  public_url = "https://a.example.com/?q=1" # ERROR: has a query
  page_size  = 0                         # ERROR: from 1 to 10000
  separator  = "123456789"               # ERROR: is not 1 to 8 characters
  conflict   = "drop"
  conflict   = "first"                   # ERROR: Attribute redefined
  variants   = ["flat", "tool"]          # ERROR: is not one of: flat, tools
}
gateway {                                # ERROR: Duplicate block; There is already a gateway block at testdata/invalid/gateway_more.hcl:1
  variants  = ["tools", "tools"]         # ERROR: Two endpoints at one path
  path      = "/a/../b"                  # ERROR: is not a plain path
  card      = true                       # ERROR: Remove it: clients are given the endpoint's URL
  page_size = 1.5                        # ERROR: must be a whole number
  max_buffered = "95%"                   # ERROR: is not between 1048576 and
  drain_delay = "-1s"                    # ERROR: is not a duration from
  drain_timeout = "2h"                   # ERROR: is not a duration from
}
admin {
  listen = "nowhere"                     # ERROR: is not HOST:PORT
}
admin {                                  # ERROR: Duplicate block
  listen = "bad host:80"                 # ERROR: has no valid host
}
auth { anonymous = true }
auth { anonymous = 7 }                   # ERROR: Duplicate block # ERROR: anonymous must be true or false # ERROR: Nobody can authenticate

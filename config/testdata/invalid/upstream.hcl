team "a" {
  upstream "none" {}                     # ERROR: Set url to reach it over HTTP, command to start it, or files
  upstream "both" {
    url     = "https://both.example.com"
    command = ["npx"]                    # ERROR: url and command are mutually exclusive
  }
  upstream "b d" {                       # ERROR: "b d" is not a name
    url = "https://x.example.com"
  }
  upstream "" {                          # ERROR: "" is not a name
    url = "https://x.example.com"
  }
  upstream "c" {
    url       = "guides.example.com"     # ERROR: Invalid upstream URL; "guides.example.com" is not an http or https URL
    transport = "stdio"                  # ERROR: stdio with command
    protocol  = "2025-11-52"             # ERROR: is not one of: auto, 2024-11-05
    timeout   = "10"                     # ERROR: is not a duration
    refresh   = "-5s"                    # ERROR: is not positive
    breaker { cooldown = "8785h" }       # ERROR: is longer than a year
  }
  upstream "d" {
    url         = "https://user:pw@d.example.com" # ERROR: Invalid upstream URL; (sensitive) has a user or password
    refresh     = "9900ms"               # ERROR: is less than 10s, the shortest interval
    timeout     = "876000h"              # ERROR: is longer than an hour
    concurrency = 0                      # ERROR: must be a whole number from 1
    max_prompts = -1                     # ERROR: must be a whole number from 1
    max_message = "4MiB"                 # ERROR: max_message must be a number
    resources   = "all"                  # ERROR: is not one of: linked
    when_down   = "kepp"                 # ERROR: is not one of: keep, hide. Did you mean "keep"
    transport   = "http"                 # ERROR: is not one of: streamable-http, sse, stdio
    breaker {
      failures = 0                       # ERROR: must be a whole number from 1
      cooldown = 5                       # ERROR: "5" is not a duration
    }
  }
  upstream "e" {
    command   = []                       # ERROR: The list is empty
    transport = "streamable-http"        # ERROR: streamable-http and sse go with url
  }
  upstream "f" {
    command = "npx -y thing"             # ERROR: command must be a list of strings
  }
  upstream "g" {
    command = ["", null]                 # ERROR: is not a program # ERROR: An element is null
    headers = { A = "b" }                # ERROR: A child process gets no headers
  }
  upstream "h" {
    url = "ftp://h.example.com"          # ERROR: is not an http or https URL
    env = { A = "b" }                    # ERROR: A server behind a url gets no environment
  }
  upstream "i" { url = "https://" }      # ERROR: is not an http or https URL
  upstream "j" { url = "https://j.example.com/#x" } # ERROR: has a fragment
  upstream "k" { url = "https://2130706433/" } # ERROR: is not an http or https URL
  upstream "l" { url = "https://l.example.com:70000/" } # ERROR: has no valid port
  upstream "m" {
    url     = 3 + "x"                    # ERROR: a number is required. Operators take numbers
    timeout = nosuch                     # ERROR: Variables not allowed
    refresh = lowwer("1s")               # ERROR: There is no function named "lowwer". Did you mean "lower"?
  }
  upstream "n" {
    url       = "https://n.example.com/sse"
    transport = "sse"
    protocol  = "2026-07-28"             # ERROR: Revision 2026-07-28 has no HTTP+SSE
  }
  upstream "o" {
    command   = ["o"]
    transport = "sse"                    # ERROR: streamable-http and sse go with url
  }
}
team "dirs" {
  upstream "dir_missing" {
    command = ["x"]
    dir     = "nowhere/at/all"           # ERROR: No such folder; "nowhere/at/all": no such file or directory; make the folder
  }
  upstream "dir_file" {
    command = ["x"]
    dir     = "upstream.hcl"             # ERROR: No such folder; "upstream.hcl": not a directory; make the folder
  }
  upstream "dir_empty" {
    command = ["x"]
    dir     = ""                         # ERROR: "" is empty; name a folder
  }
  upstream "dir_url" {
    url = "https://dir.example.com"
    dir = "nowhere"                      # ERROR: dir without command; A server behind a url is not started here
  }
  upstream "dir_files" {
    files = ["*.md"]
    dir   = "trusted"                    # ERROR: dir without a server
  }
}
team "b" {
  upstream "c" {                         # ERROR: Duplicate name; The upstream "c" is already defined at testdata/invalid/upstream.hcl:13
    url    = "https://c.example.com"
    prefix = "other"
  }
}

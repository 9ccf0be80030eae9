team "a" {
  upstream "a" {
    url       = "https://a.example.com"
    rate      = 0                        # ERROR: Invalid rate; rate must be a number from 0.000001 to 1000000.
    grace     = "10s"                    # ERROR: grace without hide
    when_down = "keep"
    retry { attempts = 0 }               # ERROR: attempts must be a whole number from 1 to 10
  }
  upstream "b" {
    url   = "https://b.example.com"
    rate  = -1.5                         # ERROR: must be a number from
    grace = "0s"                         # ERROR: grace without hide # ERROR: "0s" is not positive
    retry { attempts = 11 }              # ERROR: attempts must be a whole number from 1 to 10
  }
  upstream "c" {
    url       = "https://c.example.com"
    rate      = 1000000.5                # ERROR: must be a number from
    when_down = "hidden"                 # ERROR: is not one of: keep, hide
    grace     = "10s"
    retry {}                             # ERROR: Missing attempts
  }
  upstream "d" {
    url   = "https://d.example.com"
    rate  = 1e-300                       # ERROR: must be a number from
    retry { attempts = 1.5 }             # ERROR: must be a whole number
  }
  upstream "e" {
    url   = "https://e.example.com"
    rate  = "fast"                       # ERROR: rate must be a number; write it in digits.
    retry = 3                            # ERROR: retry is a block
  }
  upstream "f" {
    url       = "https://f.example.com"
    rate      = tonumber(env("UNSET", "5")) # ERROR: Sensitive rate
    when_down = "hide"
    grace     = 60                       # ERROR: "60" is not a duration
    attempts  = 3                        # ERROR: attempts belongs in the retry block
  }
}

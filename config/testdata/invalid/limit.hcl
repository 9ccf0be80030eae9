gateway {
  limit {}                               # ERROR: Nothing to limit
}
team "a" {
  upstream "u" { url = "https://u.example.com" }
  limit {
    rate        = 0                      # ERROR: rate must be a number from
    burst       = 0                      # ERROR: burst must be a whole number
    concurrency = -1                     # ERROR: concurrency must be a whole number
  }
  expose "z" {
    prompts = ["u.*"]
    to      = ["*"]
    limit { streams = 4 }                # ERROR: move streams to the limit block of gateway
  }
  limit { rate = 1 }                     # ERROR: Duplicate block
  expose "x" {
    prompts = ["u.*"]
    to      = ["*"]
    limit {
      burst       = 5                    # ERROR: burst without rate
      concurrency = 1
    }
  }
  hide "x" {
    prompts = ["u.*"]
    limit { rate = 1 }                   # ERROR: Unknown block
  }
  expose "y" {
    prompts = ["u.*"]
    to      = ["*"]
    limit "x" { rate = 1 }               # ERROR: Unexpected label
  }
}

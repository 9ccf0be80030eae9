allow "a" {
  hosts       = ["*"]
  max_message = 8388608
  concurrency = 1000
  max_prompts = 100
}
allow "b" { hosts = ["*"] }
allow "c" {
  hosts       = ["*"]
  max_prompts = 0                        # ERROR: max_prompts must be a whole number from 1 to 2147483647
  max_files   = 0                        # ERROR: max_files must be a whole number from 1 to 2147483647
}
team "a" {
  upstream "a1" {
    url         = "https://a.example.com"
    max_message = 8388608
    concurrency = 1000
  }
  upstream "a2" {
    url         = "https://a.example.com"
    max_message = 8388609                # ERROR: Not allowed for this team; Team "a" may set max_message to at most 8388608; the platform team can raise that with max_message in allow "a"
    max_prompts = 101                    # ERROR: Team "a" may set max_prompts to at most 100
    concurrency = 1001                   # ERROR: Team "a" may set concurrency to at most 1000
  }
}
team "b" {
  upstream "b1" {
    url         = "https://b.example.com"
    max_message = 2147483647             # ERROR: Team "b" may set max_message to at most 4194304
    max_prompts = 10001                  # ERROR: Team "b" may set max_prompts to at most 10000
    concurrency = 257                    # ERROR: Team "b" may set concurrency to at most 256
  }
  upstream "b2" {
    url         = "https://b.example.com"
    max_message = 4194304
    max_prompts = 10000
    concurrency = 256
  }
}
team "c" {
  upstream "c1" {
    url         = "https://c.example.com"
    max_prompts = 20000
  }
}

team "a" {
  upstream "a" {
    url = "https://a.example.com # ERROR: Invalid multi-line string # ERROR: Unterminated template string
  } # ERROR: Invalid multi-line string
} # ERROR: Invalid multi-line string

team "a" { lock = "strict" }             # ERROR: "strict" is not one of: enforce, warn
team "b" {
  lock = "warn"
  upstream "u" {
    url  = "https://u.example.com"
    lock = "warn"                        # ERROR: Not here; lock belongs into the team block; move it there.
  }
}

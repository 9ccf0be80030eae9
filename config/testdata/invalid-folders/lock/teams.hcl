team "a" { lock = "strict" }             # ERROR: "strict" is not one of: enforce, warn
team "b" {
  lock = "warn"
  upstream "u" {
    url  = "https://u.example.com"
    lock = "warn"                        # ERROR: Misplaced attribute; lock belongs in the team block; move it there.
  }
}

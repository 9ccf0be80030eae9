gateway { lock = "enforce" }

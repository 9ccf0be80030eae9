team "a" {}
allow "a" { commands = ["*"] } # ERROR: a file with a team block may contain nothing else; move allow
hide "x" { prompts = ["*"] }   # ERROR: move hide

team "a" {}
allow "a" { commands = ["*"] } # ERROR: a file that holds a team block holds nothing else; move allow
hide "x" { prompts = ["*"] }   # ERROR: move hide

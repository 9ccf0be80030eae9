team "a" {}
allow "a" { commands = ["*"] } # ERROR: a file with a team block may contain nothing else; move allow to a file of the platform team
hide "x" { prompts = ["*"] }   # ERROR: move hide into the team block
allow { commands = ["*"] }     # ERROR: move allow
hide "y" { promts = 1 }        # ERROR: move hide
upstream "w" {}                # ERROR: upstream belongs in a team block; move it there
hidden "z" {}                  # ERROR: hidden does not exist. Did you mean "hide"?

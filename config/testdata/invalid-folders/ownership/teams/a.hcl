team "a" {}
allow "a" { commands = ["*"] } # ERROR: a file with a team block may contain nothing else; move allow, hide to a file without one, such as gateway.hcl, or a hide for the team's own prompts into the team block.
hide "x" { prompts = ["*"] }
allow { commands = ["*"] }
hide "y" { promts = 1 }
upstream "w" {}                # ERROR: upstream belongs in the team block; move it there
hidden "z" {}                  # ERROR: hidden does not exist. Did you mean "hide"?

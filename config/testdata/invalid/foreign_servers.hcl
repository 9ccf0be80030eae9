mcpServers = { x = { command = "x" } }        # ERROR: Write team "NAME" { upstream "NAME" { … } } for each server; promptweir import
upstream "top" { command = ["x"] }            # ERROR: upstream belongs in the team block; move it there
expose "top" { prompts = ["*"] }              # ERROR: expose belongs in the team block; move it there
team "a" {
  server "x" { command = ["x"] }              # ERROR: Write upstream "NAME" { … } for each server
  upstream "u" { command = ["u"] }
}

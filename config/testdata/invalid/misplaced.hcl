# What a misplaced block declares is not missed elsewhere.
gateway { listen = "0.0.0.0:80" }
token "x" { as = "user:x" }                         # ERROR: token belongs in the auth block; move it there
upstream "wiki" { url = "https://x.example.com/" }  # ERROR: upstream belongs in the team block; move it there
team "b" {
  upstream "w" { url = "https://y.example.com/mcp" }
  hide "x" {
    prompts = ["*"]
    when    = prompt.upstream == "wiki"
  }
}
team "c" {
  upstream "v" {
    url     = "https://z.example.com/mcp"
    members = ["*"]             # ERROR: members belongs in the team block; move it there
    hide "x" {}                 # ERROR: hide belongs in the team block; move it there
    expose "x" {}               # ERROR: expose belongs in the team block; move it there
  }
  hide "y" { prompts = ["v.[x"] } # ERROR: write "\\[" for a bracket
}

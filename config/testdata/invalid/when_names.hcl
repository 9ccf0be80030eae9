gateway { page_size = 0 }                # ERROR: from 1 to 10000
team "payments" {
  members = ["group:payments", "group:pay*"] # WARNING: members takes no patterns; write a group, or each name
  upstream "billing" { url = "https://billing.example.com/mcp" }
  expose "forgets the word in front" {
    prompts = ["billing.a*"]
    to      = ["*"]
    when    = contains(principal.groups, "payments") # WARNING: Name without group:; each of principal.groups begins with "group:", so it is never "payments"; write "group:payments"
  }
  expose "subject" {
    prompts = ["billing.a*"]
    to      = ["*"]
    when    = "alice" == principal.subject && principal.subject != (true ? "user:bob" : "bob") # WARNING: principal.subject begins with "user:", so it is never "alice"; write "user:alice"
  }
  expose "lists" {
    prompts = ["billing.a*"]
    to      = ["*"]
    when    = contains(["user:a", "bob"], principal.subject) # WARNING: write "user:bob"
  }
  hide "index" {
    prompts = ["billing.b*"]
    when    = principal.groups[0] == "ops" # WARNING: write "group:ops"
  }
  hide "list and text" {
    prompts = ["billing.b*"]
    when    = principal.groups == "writers" # WARNING: List compared with a text; principal.groups is a list and never equals a text; write contains(principal.groups, "group:writers")
  }
  expose "patterns" {
    prompts = ["billing.a*"]
    to      = ["user:*"]                   # WARNING: "user:*" is taken literally: to takes no patterns; write "*" for everybody
  }
  upstream "line" {
    command = ["npx -y thing --verbose"] # WARNING: Command in one word; All of it, blanks included, is the name of one program
  }
  hide "right" {
    prompts = ["billing.b*"]
    when    = contains(principal.groups, "group:ops") && principal.subject == "user:ops" && prompt.name == "ops" && contains(["payments"], prompt.team) && principal.claims.group == "ops" && prompt.arguments[*].name == ["ops"]
  }
}

gateway { page_size = 0 }                # ERROR: from 1 to 10000
team "payments" {
  members = ["group:payments"]
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
  hide "right" {
    prompts = ["billing.b*"]
    when    = contains(principal.groups, "group:ops") && principal.subject == "user:ops" && prompt.name == "ops" && contains(["ops"], prompt.team) && principal.claims.group == "ops" && [for a in prompt.arguments : a.name][0] == "ops"
  }
}

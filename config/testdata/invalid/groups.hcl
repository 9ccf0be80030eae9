# All groups are known, because only tokens name them.
gateway { page_size = 0 }                # ERROR: from 1 to 10000
auth {
  token "ann" {
    sha256 = "0000000000000000000000000000000000000000000000000000000000000001"
    groups = ["support"]
    as     = "bots"
  }
}
team "payments" {
  members = ["group:bots/support", "group:bots/suport", "group:p*", "user:eve"] # WARNING: No token block has the group "bots/suport". Did you mean "bots/support"? # WARNING: Pattern in a name
  upstream "billing" { url = "https://billing.example.com/mcp" }
  expose "group" {
    prompts = ["billing.a*"]
    to      = ["group:developers"] # WARNING: Unknown group; No token block has the group "developers"; correct it, or add it to the groups of a token
  }
  hide "upstream" {
    prompts = ["billing.b*"]
    when    = prompt.upstream == "biling" || contains(["ops", "payments"], prompt.team) # WARNING: prompt.upstream is never "biling", because no block has this label. Did you mean "billing"? # WARNING: prompt.team is never "ops", because no block has this label; correct or remove it
  }
}
team "search" {
  upstream "wiki" { url = "https://wiki.example.com/mcp" }
}
hide "everywhere" {
  prompts = ["*"]
  when    = prompt.upstream == "billing" || "wik" != prompt.upstream || prompt.name == "wik" # WARNING: Did you mean "wiki"?
}

gateway { page_size = 0 }                # ERROR: from 1 to 10000
hide "of the gateway" { prompts = ["biling.*"] }
team "empty" {                           # WARNING: The expose and hide blocks of team "empty" apply to the prompts of its own upstreams, and it has none
  expose "x" {
    prompts = ["*"]
    to      = ["*"]
  }
  hide "x" { prompts = ["y.*"] }
}
team "nothing" {
  members = ["user:a"]
}
team "prefixed" {
  upstream "billing" { url = "https://billing.example.com" }
  upstream "notes" {
    url    = "https://notes.example.com"
    prefix = "wiki"
  }
  upstream "more-notes" {
    url    = "https://more.example.com"
    prefix = "wiki"
  }
  expose "x" {
    prompts = [
      "billing.review_*",
      "notes.*",                         # WARNING: Pattern matches nothing; "notes.*" matches nothing, because the names of all the team's prompts start with "billing." or "wiki."; correct or remove it.
    ]
    to = ["*"]
  }
  hide "x" {
    prompts = [
      "biling.wip_*",                    # WARNING: "biling.wip_*" matches nothing, because the names of all the team's prompts start with "billing." or "wiki."
      "wip_*",                           # WARNING: "wip_*" matches nothing
      "billing",                         # WARNING: "billing" matches nothing
      "Billing.x",                       # WARNING: "Billing.x" matches nothing
      "^billing.*$",                     # WARNING: "^billing.*$" matches nothing, because
      "bil\\*.x",                        # WARNING: matches nothing
      "bi*",
      "billing.x",
      "b?ling.wip_*",
      "[b]iling.wip_*",
      "*.secret",
      "*",
      "\\w\\i\\k\\i.*",
    ]
  }
  hide "y" { prompts = concat(["wiki.a"], ["wikis.b*"]) } # WARNING: "wikis.b*" matches nothing
}
team "bare" {
  upstream "bare" {
    url    = "https://bare.example.com"
    prefix = ""
  }
  upstream "other" { url = "https://other.example.com" }
  hide "x" { prompts = ["biling.*", "x"] }
}
team "mistaken" {
  upstream "wrong" {
    url    = "https://wrong.example.com"
    prefix = "a b"                       # ERROR: is not a prefix
  }
  hide "x" { prompts = ["right.*"] }
}

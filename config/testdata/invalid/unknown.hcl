listen = "127.0.0.1:80"                  # ERROR: Misplaced attribute; listen belongs in the admin or gateway block; move it there.
gatway {}                                # ERROR: Unknown block; gatway does not exist. Did you mean "gateway"?
gateway "main" {                         # ERROR: Write gateway { … } without a label
  pagesize = 5                           # ERROR: gateway.pagesize does not exist. Did you mean "page_size"?
}
admin = "127.0.0.1:1"                    # ERROR: admin is a block
auth {
  anonymus = true                        # ERROR: Did you mean "anonymous"?
  tokn "x" {}                            # ERROR: Did you mean "token"?
  token "x" {
    sha265 = sha256("x")                 # ERROR: Did you mean "sha256"?
    sha256 = sha256("x")
  }
}
allow "a" {
  enviroment = ["*"]                     # ERROR: allow.enviroment does not exist; there are 
  hosts      = ["*"]
}
allow "b" { host = ["*"] }               # ERROR: Did you mean "hosts"? # WARNING: Unknown team; "b" names a team that no team block declares; correct it, or declare the team.
team "a" {
  member = []                            # ERROR: team.member does not exist. Did you mean "members"?
  upstream "u" {
    url      = "https://u.example.com"
    prefixx  = "v"                       # ERROR: upstream.prefixx does not exist. Did you mean "prefix"?
    zzzzzzzz = 1                         # ERROR: upstream.zzzzzzzz does not exist; there are 
    breaker {
      failure = 3                        # ERROR: breaker.failure does not exist. Did you mean "failures"?
    }
    breaker {}                           # ERROR: Duplicate block
    headers {                            # ERROR: headers is an attribute: write headers = …
      Authorization = "Bearer hunter2"
    }
  }
  upstream "v" {
    url     = "https://v.example.com"
    breaker = { failures = 5 }           # ERROR: breaker is a block: write breaker { … }
  }
  upstream {                             # ERROR: Write upstream "NAME" { … }
    url = "x"                            # ERROR: is not an http or https URL
  }
  hide = {}                              # ERROR: hide is a block: write hide "NAME" { … } without an equals sign.
  expose "x" {
    prompts = ["*"]
    for     = ["*"]                      # ERROR: expose.for does not exist; there are limit, prompts, to, when.
    to      = ["*"]
  }
  hide "x" {
    prompt  = ["*"]                      # ERROR: hide.prompt does not exist. Did you mean "prompts"?
    prompts = ["*"]
  }
}
allow "a" {}                             # ERROR: Duplicate name

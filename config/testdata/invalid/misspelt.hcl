# A misspelt name is one mistake: that what it was meant to be is missing is not said again.
gateway {
  listen = "127.0.0.1:0"
  limit {
    rat = 5                                   # ERROR: limit.rat does not exist. Did you mean "rate"?
  }
  screen "s" {
    pattern = ["x"]                           # ERROR: screen.pattern does not exist. Did you mean "patterns"?
  }
  tls {
    certfile = "cert.pem"                     # ERROR: tls.certfile does not exist. Did you mean "cert_file"?
    keyfile  = "key.pem"                      # ERROR: tls.keyfile does not exist. Did you mean "key_file"?
  }
}
auth {
  token "t" {
    as     = "bots"
    sha265 = sha256("x")                      # ERROR: token.sha265 does not exist. Did you mean "sha256"?
  }
  jwt "j" {
    isuer    = "https://idp.example.com"      # ERROR: jwt.isuer does not exist. Did you mean "issuer"?
    audience = "https://prompts.example.com"
    as       = "corp"
  }
}
team "a" {
  upsteam "z" {                               # ERROR: team.upsteam does not exist. Did you mean "upstream"?
    url = "https://z.example.com"
  }
  hide "z" {
    prompts = ["u.*"]
    when    = prompt.upstream == "z"
  }
  upstream "u" {
    urll = "https://u.example.com"            # ERROR: upstream.urll does not exist. Did you mean "url"?
  }
  upstream "v" {
    comand = ["v"]                            # ERROR: upstream.comand does not exist. Did you mean "command"?
    retry {
      attempt = 3                             # ERROR: retry.attempt does not exist. Did you mean "attempts"?
    }
  }
  upstream "w" {
    command {}                                # ERROR: command is an attribute: write command = … with an equals sign.
  }
  upstream "o" {
    url = "https://o.example.com"
    oauth {
      token_uri     = "https://idp.example.com" # ERROR: oauth.token_uri does not exist. Did you mean "token_url"?
      client_id     = "me"
      client_secret = "hunter2"
    }
  }
  expose "e" {
    prompt = ["u.*"]                          # ERROR: expose.prompt does not exist. Did you mean "prompts"?
    too    = ["*"]                            # ERROR: expose.too does not exist. Did you mean "to"?
  }
  expose "f" { zzz = ["u.*"] }                # ERROR: expose.zzz does not exist; there are limit, prompts, to, when. # ERROR: Missing prompts # ERROR: Missing to
  hide "h" { promts = ["u.*"] }               # ERROR: hide.promts does not exist. Did you mean "prompts"?
}
team "arguments" {
  upstream "args" {
    command = ["npx"]
    args    = ["-y", "x"]                # ERROR: args belongs in command, after the program; move it there
  }
}

gateway {
  public_url   = "https://prompts.example.com"
  signing_keys = ["hunter2", sha256("a")] # ERROR: Invalid signing_keys; (sensitive) is not the PEM of an Ed25519 or P-256 key # ERROR: openssl genpkey -algorithm ed25519
}
allow "a" {
  hosts     = ["a.example.com"]
  audiences = ["docs-*"]
}
allow "b" {
  hosts = ["b.example.com"]
}
team "a" {
  upstream "one" {
    url     = "https://a.example.com/one"
    headers = { x-caller = "admin" }
    assertion {                          # ERROR: Two values; headers already has X-Caller
      header = "x-caller"
    }
  }
  upstream "two" {
    url = "https://a.example.com/two"
    assertion {
      header   = "Authorization"         # ERROR: Invalid header; "Authorization" has a meaning of its own in HTTP or MCP; name a header that carries only a JWT
      audience = "docs-a"
      claims   = ["email", "secrets"]    # ERROR: Invalid claims; "secrets" is not one of: email, groups
    }
  }
  upstream "three" {
    url = "https://a.example.com/two"
    assertion {
      audience = "two words"             # ERROR: Invalid audience; "two words" is not an audience
    }
  }
  upstream "child" {
    command = ["npx"]                    # ERROR: Not allowed for this team
    assertion {}                         # ERROR: assertion without url; A child process gets no headers
  }
}
team "b" {
  upstream "four" {
    url = "https://b.example.com/mcp"
    assertion {
      audience = "docs-a"                # ERROR: Not allowed for this team; Team "b" may not use the audience "docs-a"; the platform team can add it to audiences in allow "b". # ERROR: One audience for two teams; Team "a" has the same audience at testdata/invalid/assertion.hcl:
    }
  }
}

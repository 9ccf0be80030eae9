# The attributes that everything.hcl cannot have beside its own.
gateway {
  lock = "warn"
  screen "types" {
    content  = ["text"]
    max_size = 1000
    skills   = "text"
  }
}
auth {
  jwt "proxy" {
    issuer   = "access.example.com"
    jwks_url = "https://access.example.com/keys"
    audience = "https://prompts.example.com/mcp"
    header   = "x-access-jwt"
  }
}
audit {
  path     = "audit.jsonl"
  required = true
}
hide "drafts" {
  prompts = ["*"]
  when    = prompt.title == ""
}
allow "docs" {
  env         = ["SECRET"]
  files       = ["*.md"]
  hosts       = ["docs.example.com"]
  audiences   = ["docs"]
  prefixes    = ["", "docs"]
  max_message = 1000
  max_prompts = 100
  concurrency = 10
  max_files   = 10000
}
team "docs" {
  upstream "docs" {
    files  = ["*.md"]
    format = "claude"
    texts  = true
    skills = "only"
  }
  upstream "server" {
    url    = "https://docs.example.com/mcp"
    prefix = ""
    oauth {
      token_url     = "https://docs.example.com/token"
      client_id     = "promptweir"
      client_secret = env("SECRET")
      resource      = ""
    }
  }
}

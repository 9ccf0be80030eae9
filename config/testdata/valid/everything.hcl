gateway {
  listen          = "0.0.0.0:8443"
  path            = "/v1/mcp"
  public_url      = "https://prompts.example.com/"
  page_size       = "50"
  separator       = "/"
  cursor_keys     = [base64encode("0123456789abcdef0123456789abcdef"), "__________________________________________8"]
  allowed_hosts   = ["prompts.example.com", "10.0.0.7", "[::1]", "fd00::7"]
  allowed_origins = ["https://app.example.com", "vscode-webview://panel", "chrome-extension://*", "http://localhost:3000"]
  conflict        = "first"
  instructions    = "Ask in #prompts."
  state_dir       = "/var/lib/promptweir"
  max_files       = 1024 * 1024
  max_buffered    = 64 * 1024 * 1024
  drain_delay     = "0s"
  drain_timeout   = "1m"
  variants        = ["flat", "tools"]
  sse             = false

  limit {
    rate    = 50
    streams = 64
  }
}
admin { listen = "localhost:0" }
auth {
  anonymous = true
  token "ci" {
    sha256 = sha256("token")
    groups = ["ci", "payments", "x"]
  }
}
hide "never expose debug prompts" { prompts = ["*/debug_*", "[!a-z]*"] }
allow "payments" {
  env      = ["PAYMENTS_*"]
  files    = ["secrets/payments/*"]
  commands = ["npx"]
  hosts    = ["*.internal"]
  dirs     = ["shared/*"]
}
team "payments" {
  members = ["group:payments", "user:alice@example.com"]
  upstream "billing" {
    url         = "https://billing.internal/mcp"
    headers     = { Authorization = "Bearer ${env("PAYMENTS_TOKEN")}" }
    transport   = "streamable-http"
    protocol    = "2025-06-18"
    prefix      = ""
    timeout     = "20s"
    refresh     = "1m30s"
    concurrency = 4
    max_prompts = 100
    max_message = 1024 * 1024
    when_down   = "keep"
    breaker {
      failures = 3
      cooldown = "1s"
    }
  }
  upstream "notes" {
    command = concat(["npx", "-y"], split(" ", "server --quiet"))
    dir     = "secrets/./payments"
    env     = merge({ LOG_LEVEL = "warn", PORT = 8080 }, { TOKEN = trimspace(file("secrets/payments/token")) })
  }
  upstream "ledger" {
    url       = "https://a.ledger.internal/mcp"
    transport = "sse"
    rate      = 2.5
    when_down = "hide"
    grace     = "30s"
    resources = "linked"
    retry { attempts = 3 }
    tls {
      ca_file     = "secrets/payments/ca.crt"
      cert_file   = "secrets/payments/client.crt"
      key_file    = "secrets/payments/client.key"
      server_name = "ledger.internal"
    }
    oauth {
      token_url     = "https://sso.internal/token?tenant=1"
      client_id     = "promptweir"
      client_secret = env("PAYMENTS_TOKEN")
      scopes        = ["prompts:read", "prompts:list"]
    }
  }
  expose "reviews for everyone" {
    prompts = ["review_*"]
    to      = ["*", "group:x", "user:y", "team:payments"]
  }
  hide "half-finished" { prompts = ["notes/wip_?"] }
  prompt "notes/plan" {
    name        = "plan"
    title       = ""
    description = "Plan a day"
    arguments   = { year = 2026, strict = true }
    defaults    = { lang = "en" }
  }
  lock = "enforce"
  limit {
    rate        = 2.5
    concurrency = 4
  }
  screen "hidden orders" {
    patterns  = ["(?i)ignore all"]
    invisible = true
    action    = "strip"
  }
  expose "narrow" {
    prompts = ["plan"]
    to      = ["*"]
    when    = length(prompt.arguments) <= 5 && principal.claims.tier == "gold"
    limit {
      rate  = 1
      burst = 10
    }
  }
  screen "form" { wellformed = true }
}
audit {
  path      = "/var/log/promptweir/audit.jsonl"
  arguments = "hash"
  required  = true
  access    = true
}
cluster {
  store     = "rediss://gateway:${urlencode("p@ss/word")}@a.store.internal,b.store.internal:7000/?master_set=prompts&sentinel_password=watch"
  advertise = "https://10.0.0.3:8443/"
  tls { server_name = "store.internal" }
}

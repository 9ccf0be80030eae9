# Secrets that are written out are warnings, and their lines are not shown. What only looks like one is none.
team "t" {
  upstream "headers" {
    url     = "https://a.example.com/mcp?api_key=hunter2-abc" # WARNING: Secret in the file; Everybody who can read this file can read a secret here (url).
    headers = {
      Authorization = "Bearer hunter2"     # WARNING: can read a secret here (headers, Authorization).
      X-Api-Key     = "hunter2"            # WARNING: can read a secret here (headers, X-Api-Key).
      X-Note        = "ghp_hunter2hunter2hunter2hunter2" # WARNING: can read a secret here (headers, X-Note).
      X-Token       = env("A_TOKEN")
      X-Secret      = "Bearer ${env("A_TOKEN")}"
      X-Team        = "payments"
      X-Call-Token  = "env(\"A_TOKEN\")"    # WARNING: Variable is text; headers has
      X-Name-Token  = "Bearer env(A_TOKEN)" # WARNING: Variable is text
      X-Make-Token  = "Bearer $(A_TOKEN)"  # WARNING: Variable is text
      X-Cmd-Token   = "Bearer %A_TOKEN%"   # WARNING: Variable is text
      X-Brace-Token = "Bearer {{A_TOKEN}}" # WARNING: Variable is text
      X-Colon-Token = "env:A_TOKEN"        # WARNING: Variable is text
      X-Both-Token  = "hunter2-$A_TOKEN"   # WARNING: Variable is text # WARNING: can read a secret here (headers, X-Both-Token).
      X-Meant       = "$${A_TOKEN} 100%"
    }
  }
  upstream "errors first" {                # ERROR: is not a name
    url     = "https://a.example.com/mcp"
    headers = { Authorization = "Bearer hunter2" }
  }
  upstream "hook" { url = "https://a.example.com/T0123ABCD/B0123ABCD/hunter2hunter2hunter2hunter2" } # WARNING: can read a secret here (url).
  upstream "child" {
    command = ["serve", "--log", "debug", "--token", "hunter2-abc", "--api-key=hunter2-abc", "--max-tokens", "4096", "--token-file=/run/token", "--key", env("A_TOKEN")] # WARNING: can read a secret here (command). # WARNING: can read a secret here (command).
    env = {
      API_TOKEN  = "hunter2"               # WARNING: can read a secret here (env, API_TOKEN). Replace the secret, put the new one into the gateway's environment, and write env("NAME"), or "${env("NAME")}" within a text.
      DATABASE   = "postgres://app:hunter2@db/shop" # WARNING: can read a secret here (env, DATABASE).
      MAX_TOKENS = "4096"
      TOKEN_URL  = "https://idp.example.com/token"
      LOG_LEVEL  = "debug"
      NO_TOKEN   = ""
    }
  }
  upstream "reference" {
    url = "https://a.example.com/mcp?api_key=$A_TOKEN" # WARNING: Variable is text; url has
    oauth {
      token_url     = "https://idp.example.com/token"
      client_id     = "$CLIENT_ID"         # WARNING: Variable is text; client_id has
      client_secret = "$(A_TOKEN)"         # WARNING: Variable is text; client_secret has
    }
  }
  upstream "shell" {
    command = ["sh", "-c", "exec serve $HOST"]
    env     = { API_TOKEN = "$A_TOKEN" }   # WARNING: Variable is text; env has
  }
  upstream "image" { command = ["docker", "run", "-t", "wiki@sha256:0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d4e5f0a1b2c3d4e5f0a1b"] }
  upstream "oauth" {
    url = "https://a.example.com/mcp"
    oauth {
      token_url     = "https://idp.example.com/token"
      client_id     = "me"
      client_secret = "hunter2"            # WARNING: can read a secret here (client_secret).
    }
  }
}

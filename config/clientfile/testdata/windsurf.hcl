# Made by promptweir import from windsurf.json.
# It needs these variables in the gateway's environment:
# - FIGMA_TOKEN
# - SECRETS_API_TOKEN: written out in the client's file
# - FILE_RUN_KEY

team "mine" {
  upstream "figma" {
    url     = "https://figma.example.com/mcp"
    headers = { API_KEY = "Bearer ${env("FIGMA_TOKEN")}" }
  }

  # Not imported: alwaysAllow.
  # Left out: it is disabled in the client.
  # upstream "paused" {
  #   command = ["npx", "-y", "mcp-server-paused"]
  # }

  # Only the client knows ${file:/run/key}; FILE_RUN_KEY replaces it.
  upstream "secrets" {
    command = ["docker", "run", "-i", "--rm", "-e", "API_TOKEN=${env("SECRETS_API_TOKEN")}", "mcp/s"]
    env     = { KEY_FILE = env("FILE_RUN_KEY") }
  }

  # Left out: Upstream not reachable: Link-local and cloud metadata addresses give out the machine's own credentials; no upstream may be there.
  # upstream "metadata" {
  #   url = "http://169.254.169.254/mcp"
  # }

  # Its url had a user and a password: write headers = { Authorization = "Basic ${base64encode(env("…"))}" }.
  upstream "basic" {
    url = "https://basic.example.com/mcp"
  }

  # In the client: émoji 🎉
  upstream "moji" {
    url = "https://emoji.example.com/mcp"
  }
}

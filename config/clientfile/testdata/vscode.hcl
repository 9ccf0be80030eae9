# Made by promptweir import from vscode.json.
# It needs these variables in the gateway's environment:
# - GITHUB_TOKEN: A token of GitHub

team "mine" {
  # Not imported: gallery, version.
  upstream "github" {
    url     = "https://api.githubcopilot.com/mcp/"
    headers = { Authorization = "Bearer ${env("GITHUB_TOKEN")}" }
  }

  # Not imported: dev.
  upstream "weather" {
    command = ["uvx", "weather-mcp", "--region", env("REGION", "eu"), "--note", "// no comment, and $5"]
  }

  # Left out: its url is not an HTTP URL.
  # upstream "socket" {
  #   url = "unix:///run/mcp.sock"
  # }
}

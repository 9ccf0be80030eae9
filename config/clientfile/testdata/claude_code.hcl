# Made by promptweir import from claude_code.json.
# It needs these variables in the gateway's environment:
# - API_KEY
# - CLAUDE_PLUGIN_ROOT
# - DB_URL

team "mine" {
  # oauth: in the client, a person signs in. The gateway gets tokens through an oauth block (client credentials), or sends one in headers.
  upstream "sentry" {
    url = "https://mcp.sentry.dev/mcp"
  }

  # Not imported: the header Accept, which the gateway sets itself.
  upstream "api" {
    url     = "${env("API_BASE_URL", "https://api.example.com")}/mcp"
    headers = { Authorization = "Bearer ${env("API_KEY")}" }
  }

  # headersHelper: in the client, a program prints headers. Here, write them in headers, or use an oauth block (client credentials).
  upstream "asana" {
    url       = "https://mcp.asana.com/sse"
    transport = "sse"
  }

  # In the client, dir was relative to its project; here it is relative to the folder of this file.
  upstream "database" {
    command = ["${env("CLAUDE_PLUGIN_ROOT")}/servers/db", "--config", "${env("CLAUDE_PLUGIN_ROOT")}/config.json"]
    dir     = "./db"
    env     = { DB_URL = env("DB_URL") }
    timeout = "60s"
  }

  # Left out: the gateway does not speak MCP over WebSockets.
  # upstream "live" {
  #   url = "wss://live.example.com/mcp"
  # }
}

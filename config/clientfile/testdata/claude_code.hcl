# Made by promptweir import from claude_code.json.
# It needs these variables in the gateway's environment:
# - API_KEY
# - CLAUDE_PLUGIN_ROOT
# - DB_URL

team "mine" {
  # oauth: there, a person signs in. The gateway gets its own tokens with an oauth block (client credentials), or has one in headers.
  upstream "sentry" {
    url = "https://mcp.sentry.dev/mcp"
  }

  # Not taken over: the header Accept, which the gateway sets itself.
  upstream "api" {
    url     = "${env("API_BASE_URL", "https://api.example.com")}/mcp"
    headers = { Authorization = "Bearer ${env("API_KEY")}" }
  }

  # headersHelper: there, a program prints headers. Here they are in headers, or come from an oauth block (client credentials).
  upstream "asana" {
    url       = "https://mcp.asana.com/sse"
    transport = "sse"
  }

  # In the client, dir was relative to its project; here it is to the folder of this file.
  # Not taken over: timeout.
  upstream "database" {
    command = ["${env("CLAUDE_PLUGIN_ROOT")}/servers/db", "--config", "${env("CLAUDE_PLUGIN_ROOT")}/config.json"]
    dir     = "./db"
    env     = { DB_URL = env("DB_URL") }
  }

  # Left out: the gateway does not speak MCP over WebSockets.
  # upstream "live" {
  #   url = "wss://live.example.com/mcp"
  # }
}

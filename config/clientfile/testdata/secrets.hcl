# Made by promptweir import from secrets.json.
# It needs these variables in the gateway's environment:
# - OPENAPI_MCP_HEADERS: written out in the client's file
# - BRIDGE_API_KEY: written out in the client's file
# - AUTH_HEADER: written out in the client's file
# - SMITHERY_KEY: written out in the client's file
# - SMITHERY_EXAAPIKEY: written out in the client's file
# - SHELL_X_API_KEY: written out in the client's file
# - SHELL_TOKEN: written out in the client's file
# - SHELL_DB_PASS: written out in the client's file
# - SHELL_PASSWORD: written out in the client's file
# - API_TOKEN: its default is written out in the client's file
# - HOOK_SECRET: written out in the client's file
# - HOOK_X_NOTE: written out in the client's file
# - PGPASS: written out in the client's file
# - NOTE: written out in the client's file
# - CONNECTION: written out in the client's file
# - OPENAI: written out in the client's file

team "mine" {
  upstream "notion" {
    command = ["npx", "-y", "@notionhq/notion-mcp-server"]
    env     = { OPENAPI_MCP_HEADERS = env("OPENAPI_MCP_HEADERS") }
  }

  upstream "bridge" {
    command = ["npx", "mcp-remote", "https://docs.example.com/mcp?lang=en&api_key=${env("BRIDGE_API_KEY")}", "--header", "Authorization:$${AUTH_HEADER}"]
    env     = { AUTH_HEADER = "Bearer ${env("AUTH_HEADER")}" }
  }

  upstream "smithery" {
    command = ["npx", "-y", "@smithery/cli@latest", "run", "exa", "--key", env("SMITHERY_KEY"), "--config", "{\"exaApiKey\": \"${env("SMITHERY_EXAAPIKEY")}\", \"n\": 5}"]
  }

  upstream "shell" {
    command = ["sh", "-c", "curl -H 'X-Api-Key: ${env("SHELL_X_API_KEY")}' -H 'Authorization: Bearer ${env("SHELL_TOKEN")}' https://x.example.com; DB_PASS=${env("SHELL_DB_PASS")} TOKEN=$TOKEN exec server --password ${env("SHELL_PASSWORD")} --port 80"]
  }

  upstream "default" {
    command = ["x", "--token=${env("API_TOKEN")}", "--region=${env("REGION", "eu")}"]
  }

  upstream "hook" {
    url     = "https://mcp.example.com/s/${env("HOOK_SECRET")}/mcp"
    headers = { X-Note = "Basic ${env("HOOK_X_NOTE")}" }
  }

  upstream "words" {
    command = ["x"]
    env = {
      PGPASS     = env("PGPASS")
      NOTE       = env("NOTE")
      CONNECTION = env("CONNECTION")
      OPENAI     = env("OPENAI")
    }
  }
}

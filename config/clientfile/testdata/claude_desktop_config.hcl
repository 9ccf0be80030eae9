# Made by promptweir import from claude_desktop_config.json.
# It needs these variables in the gateway's environment:
# - BRAVE_API_KEY: written out in the client's file
# - LOG_LEVEL: written out in the client's file
# - MY_NOTES_TOKEN: written out in the client's file
# - BRIDGE_TOKEN: written out in the client's file

team "mine" {
  upstream "filesystem" {
    command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/Users/ann/Desktop"]
  }

  upstream "brave-search" {
    command = ["npx", "-y", "@modelcontextprotocol/server-brave-search"]
    env = {
      BRAVE_API_KEY = env("BRAVE_API_KEY")
      LOG_LEVEL     = env("LOG_LEVEL")
    }
  }

  # In the client: My Notes
  upstream "My-Notes" {
    command = ["C:\\Program Files\\nodejs\\node.exe", "C:\\notes\\index.js", "--token", env("MY_NOTES_TOKEN"), "--port=7000"]
  }

  upstream "bridge" {
    command = ["npx", "mcp-remote", "https://docs.example.com/sse", "--header", "Authorization: Bearer ${env("BRIDGE_TOKEN")}"]
  }
}

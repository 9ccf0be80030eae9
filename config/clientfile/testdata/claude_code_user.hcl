# Made by promptweir import from claude_code_user.json.

team "mine" {
  upstream "context7" {
    command = ["npx", "-y", "@upstash/context7-mcp"]
  }

  upstream "shop" {
    url = "http://127.0.0.1:9001/mcp"
  }

  # In the client: shop
  upstream "shop-2" {
    url = "http://127.0.0.1:9002/mcp"
  }
}

# A team's file: its servers, and who may use which of their prompts. Each team has a file of its own.
# "promptweir import FILE" makes one from an MCP client's configuration.

team "mine" {
  # members = ["group:mine"] # who sees all prompts of the team, once there is an auth block

  # Each Markdown file is a prompt: prompts/code_review.md is listed as notes.code_review. Change one, and the next list has it.
  upstream "notes" { files = ["prompts/*.md"] }

  # A server over HTTP. Its prompts are listed as wiki.NAME.
  #
  # upstream "wiki" {
  #   url     = "https://wiki.example.com/mcp"
  #   headers = { Authorization = "Bearer ${env("WIKI_TOKEN")}" }
  # }

  # A server that the gateway starts: the program, then its arguments.
  #
  # upstream "everything" {
  #   command = ["npx", "-y", "@modelcontextprotocol/server-everything"]
  # }

  # Prompts that others may use too.
  #
  # expose "reviews for everybody" {
  #   prompts = ["notes.code_*"]
  #   to      = ["*"]
  # }
}

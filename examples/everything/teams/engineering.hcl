team "engineering" {
  upstream "reviews" {
    command = ["bin/reviews"]
  }

  # The MCP project's own test server. It uses every feature, so its prompts have arguments,
  # completions and an embedded resource. Its version is pinned, because an update would change
  # the prompts in everybody's client.
  #
  # A child process gets only PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG, TMPDIR and what env adds.
  upstream "everything" {
    command = ["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31", "stdio"]
    env     = { NO_COLOR = "1" }
  }
}

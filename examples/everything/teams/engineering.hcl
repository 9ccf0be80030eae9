team "engineering" {
  upstream "reviews" {
    command = ["bin/reviews"]
  }

  # The protocol project's own test server: it exercises every feature, so its prompts come with
  # arguments, completions and an embedded resource. Pinned, because a server that changes by
  # itself changes what everybody's client is told.
  #
  # A child process gets only PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG, TMPDIR and what env adds.
  upstream "everything" {
    command = ["npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31", "stdio"]
    env     = { NO_COLOR = "1" }
  }
}

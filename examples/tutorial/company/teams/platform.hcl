team "platform" {
  members = ["group:platform"]

  upstream "everything" { command = ["node_modules/.bin/mcp-server-everything"] }

  expose "one for everybody" {
    prompts = ["everything.simple-prompt"]
    to      = ["*"]
  }
}

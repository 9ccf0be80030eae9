team "platform" {
  upstream "everything" { url = "http://everything:3001/mcp" }

  expose "for everybody" {
    prompts = ["everything.*"]
    to      = ["*"]
  }
}

# The docs team's prompts are files beside this one.

team "docs" {
  members = ["group:docs"]

  upstream "handbook" { files = ["*.md"] }

  expose "for everybody" {
    prompts = ["handbook.*"]
    to      = ["*"]
  }
}

team "support" {
  members = ["user:carol"]

  # The folder is one of the repository, as this server's own: the path is relative to where the gateway was started.
  upstream "letters" {
    command = ["bin/letters", "examples/teams/letters"]
  }

  # The server is for any company; ours need not be asked for, and most letters are in English.
  prompt "letters.refund" {
    name      = "letters.refund_request"
    title     = "Answer a refund request"
    arguments = { company = "Example Ltd" }
    defaults  = { language = "English" }
  }

  expose "refunds are everybody's business" {
    prompts = ["letters.refund_request"]
    to      = ["*"]
  }
}

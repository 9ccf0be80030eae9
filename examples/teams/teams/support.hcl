team "support" {
  members = ["user:carol"]

  # The server reads its letters from this folder. Paths are relative to the directory in which the gateway was started.
  upstream "letters" {
    command = ["bin/letters", "examples/teams/letters"]
  }

  # The server serves any company. Ours is always the same, and most letters are in English.
  prompt "letters.refund" {
    name      = "letters.refund_request"
    title     = "Answer a refund request"
    arguments = { company = "Example Ltd" }
    defaults  = { language = "English" }
  }

  expose "refunds for everybody" {
    prompts = ["letters.refund_request"]
    to      = ["*"]
  }
}

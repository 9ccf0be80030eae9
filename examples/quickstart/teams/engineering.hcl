# Owned by the engineering team, which publishes prompts by pull requests to this file.

team "engineering" {
  # A server that the gateway starts, and talks to over its standard input and output. The path is
  # relative to the directory in which the gateway was started.
  #
  # The label is the prefix of its prompts' names: code_review is listed as reviews.code_review.
  upstream "reviews" {
    command = ["bin/reviews"]
  }
}

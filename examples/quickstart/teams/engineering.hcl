# Owned by the engineering team: a pull request to this file is how its prompts get published.

team "engineering" {
  # A server that the gateway starts itself and talks to over its standard input and output. The
  # path is relative to the folder in which the gateway was started.
  #
  # The label is the prefix of the prompts' names: the server's code_review is listed as
  # reviews.code_review.
  upstream "reviews" {
    command = ["bin/reviews"]
  }
}

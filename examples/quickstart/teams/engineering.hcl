# Owned by the engineering team, which publishes prompts by pull requests to this file and the folder.

team "engineering" {
  # Each Markdown file in the folder is a prompt. The label is the prefix of their names: code_review.md is
  # listed as reviews.code_review.
  upstream "reviews" { files = ["reviews/*.md"] }
}

team "engineering" {
  # Members see every prompt of the team's upstreams. The group comes from the caller's token.
  members = ["group:engineering"]

  upstream "reviews" {
    command = ["bin/reviews"]
  }

  # Patterns match the names that clients see: prefix, separator, name.
  expose "reviews are for everybody who writes code" {
    prompts = ["reviews.code_review"]
    to      = ["team:operations"]
  }
}

team "engineering" {
  members = ["group:engineering"]

  upstream "reviews" {
    command = ["bin/reviews"]
  }

  expose "reviews for people who write scripts" {
    prompts = ["reviews.code_review"]
    to      = ["team:operations"]

    # Callers from other teams get at most one of these a second.
    limit { rate = 1 }
  }
}

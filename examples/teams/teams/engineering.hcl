team "engineering" {
  members = ["group:engineering"]

  upstream "reviews" {
    command = ["bin/reviews"]
  }

  expose "reviews for who writes scripts" {
    prompts = ["reviews.code_review"]
    to      = ["team:operations"]

    # Guests may ask for what is exposed here now and then.
    limit { rate = 1 }
  }
}

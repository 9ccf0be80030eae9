team "a" {
  upstream "u" {
    command = ["u"]
    env     = { TOKEN = "${TOKEN:-hunter2}" }  # ERROR: write "${env("TOKEN", "…")}"
  }
}

gateway { listen = "nowhere" }           # ERROR: is not HOST:PORT
team "a" {
  members = [
    "user:a"
}                                        # ERROR: Missing item separator

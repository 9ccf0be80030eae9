team "a" {
  upstream "u" {
    url = "https://u.example.com"
    headers = {
      X-One   = env("CURSOR")            # ERROR: Not for a team; The environment variable "CURSOR" is a cursor key
      X-Two   = file("../keys/cursor.key") # ERROR: Not for a team; The file
      X-Three = env("A_TOKEN")
      X-Four  = file("/etc/passwd-of-nobody") # ERROR: Cannot read file
    }
  }
}

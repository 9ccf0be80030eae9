team "a" {
  upstream "u" {
    url = "https://u.example.com"
    headers = {
      X-One   = env("CURSOR")            # ERROR: Reserved for the gateway; The environment variable "CURSOR" holds a key
      X-Two   = file("../keys/cursor.key") # ERROR: Reserved for the gateway; The file
      X-Three = env("A_TOKEN")
      X-Four  = file("/etc/passwd-of-nobody") # ERROR: Cannot read file
    }
  }
}

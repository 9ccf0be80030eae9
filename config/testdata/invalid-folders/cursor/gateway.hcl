gateway { cursor_keys = [base64encode(env("CURSOR")), trimspace(file("keys/cursor.key"))] }
allow "b" {
  env   = ["*"]
  files = ["*"]
  hosts = ["*"]
}
allow "a" {
  env   = ["*"]
  files = ["/*", "*"]
  hosts = ["*"]
}

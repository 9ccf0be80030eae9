gateway {
  cursor_keys = flatten([
    [base64encode(env("CURSOR"))],
    env("NEWER", "") == "" ? [trimspace(file("${"keys"}/cursor.key"))] : [env("NEWER")],
  ])
}
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

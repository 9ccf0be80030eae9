gateway {
  cursor_keys = flatten([
    [for name in ["CURSOR"] : base64encode(env(name))],
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

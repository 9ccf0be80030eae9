team "a" {
  members = [for n in ["alice"] : "user:${n}"] # ERROR: Only the platform's files may use for; write the values out.
  upstream "u" {
    url     = "https://u.example.com/mcp"
    headers = jsondecode(env("HEADERS", "{}")) # ERROR: Only the platform's files may use jsondecode; write the values out, or read each with env or file.
    prefix  = format("%05d", 1)                # ERROR: format takes %s, %q, %v, %t and %d without widths
  }
  expose "all" {
    prompts = flatten([["u.*"]])               # ERROR: Only the platform's files may use flatten; use concat.
    to      = ["*"]
    when    = contains(prompt.arguments[*].name, "x")
  }
}

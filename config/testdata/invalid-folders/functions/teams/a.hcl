team "a" {
  members = ["%{ for n in ["alice"] }user:${n}%{ endfor }"] # ERROR: No loops here
  upstream "u" {
    url     = "https://u.example.com/mcp"
    headers = jsondecode("{\"X-A\":\"b\"}")
    prefix  = format("%2000000d", 1)         # ERROR: Value too large; An argument or a result may have at most 1048576 bytes
  }
  expose "all" {
    prompts = flatten([["u.*"]])
    to      = ["*"]
    when    = contains(prompt.arguments[*].name, "x")
  }
}

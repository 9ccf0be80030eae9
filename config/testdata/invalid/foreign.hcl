# What people write who have configured MCP clients, shells or Terraform.

team "words" {
  upstream "remote" {
    type        = "http"                          # ERROR: upstream.type does not exist. Remove it: url or command already says so
    url         = "https://r.example.com/mcp"
    disabled    = false                           # ERROR: upstream.disabled does not exist. Remove the block
    autoApprove = ["review"]                      # ERROR: It controls a server's tools
    environment = { A = "hunter2" }               # ERROR: upstream.environment does not exist. Write env.
    token       = "hunter2"                       # ERROR: Write headers = { Authorization = "Bearer ${env("TOKEN")}" }
  }
  upstream "shell" {
    url     = "https://s.example.com/mcp"
    headers = { Authorization = "Bearer $TOKEN" } # WARNING: Variable is text; headers has a variable in the notation of another program, which is not replaced here. Write ${env("NAME")} for it, as in "Bearer ${env("TOKEN")}".
  }
  upstream "fine" {
    command = ["sh", "-c", "exec server $FLAGS"]
    env     = { PRICE = "$5", HOME_PAGE = "$${HOME}" }
  }
  upstream "windsurf" {
    serverUrl = "https://w.example.com/mcp"       # ERROR: upstream.serverUrl does not exist. Write url.
    command   = ["w"]
    enviroment = { A = "hunter2" }                # ERROR: upstream.enviroment does not exist. Write env.
  }
  upstream "local" {
    command = ["${HOME}/bin/server"]              # ERROR: write "${env("HOME")}", or just env("HOME")
    args    = ["-y"]                              # ERROR: args belongs in command, after the program; move it there
    cwd     = "/srv"                              # ERROR: upstream.cwd does not exist. Write dir; a path is relative
    envFile = ".env"                              # ERROR: Write the variables in env
    env = {
      A = "${ TOKEN }"                            # ERROR: write "${env("TOKEN")}"
      B = "x ${var.token}"                        # ERROR: write "${env("token")}"
      F = env(TOKEN)                              # ERROR: Write env("TOKEN"), with quotes, for the variable of the gateway's environment.
      G = process.env.TOKEN                       # ERROR: Write env("TOKEN"), with quotes
      H = env["TOKEN"]                            # ERROR: Write env("TOKEN"), with quotes
      I = getenv("TOKEN")                         # ERROR: There is no function named "getenv". Write env("NAME").
      C = hunter2                                 # ERROR: There are no variables here. Write text in quotes
      D = "${env.TOKEN}"                          # ERROR: write "${env("TOKEN")}"
    }
  }
}

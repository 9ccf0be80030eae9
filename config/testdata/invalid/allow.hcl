gateway { instructions = env("PLATFORM") }
allow "a" {
  env      = ["A_*"]
  files    = ["trusted/a/*", "trusted/exact.txt"]
  commands = ["npx", "/opt/a/*"]
  hosts    = ["*.internal.example.com", "Exact.example.com"]
}
allow "nobody" {}                        # WARNING: Unknown team; "nobody" names a team that no team block declares; correct it, or declare the team. The block grants nothing
allow "c" { env = ["["] }                # ERROR: has a class without a closing "]"
team "a" {
  upstream "u1" {
    url     = "https://api.internal.example.com"
    headers = { X-Ok = env("A_TOKEN"), X-No = env("B_TOKEN") } # ERROR: Team "a" may not use the environment variable "B_TOKEN"; the platform team can add it to env in allow "a"
  }
  upstream "u2" { url = "https://EXACT.example.com" }
  upstream "u3" { url = "https://internal.example.com" } # ERROR: Team "a" may not use the host "internal.example.com"
  upstream "u4" { command = ["npx", "-y", "x"] }
  upstream "u5" { command = ["/opt/a/tool"] }
  upstream "u6" { command = ["/tmp/npx"] } # ERROR: Team "a" may not use the command "/tmp/npx"
  upstream "u7" {
    command = ["npx"]
    env = {
      GOOD    = file("trusted/a/token")
      EXACT   = file("./trusted/a/../exact.txt")
      ESCAPE  = file("trusted/a/../../secret") # ERROR: may not use the file "trusted/a/../../secret"
      OUTSIDE = file("../../config.go")  # ERROR: may not use the file
      SYSTEM  = file("/etc/passwd")      # ERROR: may not use the file "/etc/passwd"
      LINK    = file("trusted/a/link")   # ERROR: may not use the file "trusted/a/link"
      GONE    = file("trusted/a/gone")   # ERROR: Cannot read file; "trusted/a/gone": no such file
    }
  }
  upstream "u12" {
    url = "https://api.internal.example.com"
    tls {
      ca_file = "secret"                 # ERROR: Team "a" may not use the file "secret"
    }
    oauth {
      token_url        = "https://elsewhere.example.com" # ERROR: Team "a" may not use the host "elsewhere.example.com"
      client_id        = env("B_CLIENT") # ERROR: may not use the environment variable "B_CLIENT"
      private_key_file = "secret"        # ERROR: Team "a" may not use the file "secret"
    }
  }
  prompt "u1.x" {
    title     = file("secret")           # ERROR: may not use the file "secret"
    arguments = { y = env("B_VALUE") }   # ERROR: may not use the environment variable "B_VALUE"
  }
  screen "s" {
    patterns = [env("B_WORD")]           # ERROR: may not use the environment variable "B_WORD"
  }
  upstream "u10" {
    command = ["npx"]
    env     = merge({ NODE_ENV = "production" }, { NODE_OPTIONS = "--import=data:,hunter2" }) # ERROR: "NODE_OPTIONS" can change which code
  }
  upstream "u11" {
    command = ["npx"]
    env = {
      PATH                = "/tmp"       # ERROR: Invalid env; "PATH" can change which code a command runs, so no team may set it once allow blocks exist
      "Path"              = "/tmp"       # ERROR: "Path" can change which code
      LD_PRELOAD          = "/tmp/x.so"  # ERROR: "LD_PRELOAD" can change which code
      DYLD_LIBRARY_PATH   = "/tmp"       # ERROR: can change which code
      npm_config_registry = "hunter2"    # ERROR: can change which code
      Npm_Config_Prefix   = "/tmp"       # ERROR: can change which code
      "BASH_FUNC_ls%%"    = "() { :; }"  # ERROR: can change which code
      GIT_SSH_COMMAND     = env("A_TOKEN") # ERROR: can change which code
      PYTHONPATH          = "/tmp"       # ERROR: can change which code
      PYTHONUNBUFFERED    = "1"
      NODE_ENV            = "production"
      LOG_PATH            = "/tmp"
      OLD_NAME            = "x"
      ENVIRONMENT         = "x"
    }
  }
  upstream "u8" {
    url = "https://exact.example.com"
    tls { ca_file = "trusted/a/ca.crt" }
  }
  upstream "u8b" { url = "https://elsewhere.example.com" } # ERROR: Team "a" may not use the host "elsewhere.example.com"
  upstream "u9" {
    url = "https://api.internal.example.com"
    tls {
      ca_file   = "pem/ca.crt"           # ERROR: Not allowed for this team; Team "a" may not use the file "pem/ca.crt"
      cert_file = "trusted/a/link"       # ERROR: may not use the file "trusted/a/link"
      key_file  = "trusted/a/../../pem/client.key" # ERROR: may not use the file "trusted/a/../../pem/client.key"
    }
  }
}
team "b" {
  members = []
  upstream "v1" { url = "https://api.internal.example.com" } # ERROR: Team "b" may not use the host
  upstream "v2" { command = ["npx"] }    # ERROR: Team "b" may not use the command
  upstream "v3" {
    command = ["npx", env("A_TOKEN")]    # ERROR: Team "b" may not use the environment variable
  }
}
team "c" {
  upstream "w1" {
    command = ["npx", env("A_TOKEN")]    # ERROR: Team "c" may not use the command
  }
}

gateway { listen = "localhost:9000" }
allow "a" {
  env   = ["*"]
  hosts = ["a.example.com", "sso.example.com", "localhost", "169.254.*"]
}
team "a" {
  upstream "u01" {
    url = "https://a.example.com"
    oauth {}                             # ERROR: Missing token_url # ERROR: Missing client_id # ERROR: Missing client_secret
  }
  upstream "u02" {
    url = "https://a.example.com"
    oauth {
      token_url     = "http://sso.example.com/token" # ERROR: Invalid token_url; "http://sso.example.com/token" would send the client's secret in plain text
      client_id     = ""                 # ERROR: is empty
      client_secret = "hunter2\n"        # ERROR: Invalid client_secret; (sensitive) has a line break
      scopes        = ["a b", ""]        # ERROR: "a b" is not a scope # ERROR: "" is not a scope
      resource      = "prompts"          # ERROR: is not an http or https URL
      audience      = "x"                # ERROR: oauth.audience does not exist
    }
  }
  upstream "u03" {
    url = "https://a.example.com"
    oauth {
      token_url     = "https://elsewhere.example.com/token" # ERROR: Not allowed for this team; Team "a" may not use the host "elsewhere.example.com"
      client_id     = env("A_TOKEN")
      client_secret = env("A_TOKEN")
    }
  }
  upstream "u04" {
    url = "https://a.example.com"
    oauth {
      token_url     = "http://169.254.169.254/token" # ERROR: would send the client's secret
      client_id     = "x"
      client_secret = env("A_TOKEN")
    }
  }
  upstream "u05" {
    url = "https://a.example.com"
    oauth {
      token_url     = "https://169.254.169.254/token" # ERROR: Link-local and cloud metadata
      client_id     = "x"
      client_secret = env("A_TOKEN")
    }
  }
  upstream "u06" {
    url = "https://a.example.com"
    oauth {
      token_url     = "http://localhost:9000/token" # ERROR: This is the gateway's own gateway.listen
      client_id     = "x"
      client_secret = env("A_TOKEN")
    }
  }
  upstream "u07" {
    url     = "https://a.example.com"
    headers = { authorization = "Bearer x" }
    oauth {                              # ERROR: Two credentials; headers already has an authorization
      token_url     = "http://localhost:9009/token"
      client_id     = "x"
      client_secret = env("A_TOKEN")
    }
  }
  upstream "u08" {
    url = "https://a.example.com"
    oauth {
      token_url     = "https://user:hunter2@sso.example.com/token" # ERROR: (sensitive) has a user or password
      client_id     = "x"
      client_secret = env("NOT_SET")     # ERROR: NOT_SET is not set
    }
    oauth {                              # ERROR: Duplicate block
      token_url     = "https://sso.example.com/token"
      client_id     = "x"
      client_secret = "hunter2"
      resource      = ""
    }
  }
  upstream "u10" {
    url = "https://a.example.com"
    oauth {
      token_url        = "https://sso.example.com/token"
      client_id        = "x"
      client_secret    = "hunter2"
      private_key_file = "pem/client.key"    # ERROR: Two credentials; A client authenticates with a secret or with a key # ERROR: may not use the file
    }
  }
  upstream "u11" {
    url = "https://a.example.com"
    oauth {
      token_url     = "https://sso.example.com/token"
      client_id     = "x"
      client_secret = "hunter2"
      issuer        = "https://sso.example.com" # ERROR: issuer without private_key_file
    }
  }
  upstream "u09" {
    url   = "https://a.example.com"
    oauth = "x"                          # ERROR: oauth is a block
  }
}
team "b" {
  upstream "v01" {
    command = ["npx"]                    # ERROR: may not use the command
    oauth {                              # ERROR: oauth without url
      token_url     = "https://sso.example.com/token" # ERROR: may not use the host
      client_id     = "x"
      client_secret = "hunter2"
    }
  }
}

team "docs" {
  upstream "a" {
    files       = ["prompts/**/*.md"]      # ERROR: Two ways to reach one upstream; url and files are mutually exclusive
    url         = "https://a.example.com"
  }
  upstream "b" {
    files       = ["b/*.md"]               # ERROR: Two ways to reach one upstream; command and files are mutually exclusive
    command     = ["b"]
  }
  upstream "c" {
    files       = []                       # ERROR: The list is empty; write a pattern like "prompts/**/*.md".
  }
  upstream "d" {
    files = [
      "",                                  # ERROR: "" is empty
      "/etc/*.md",                         # ERROR: "/etc/*.md" starts with a slash; write it relative to the folder of this file
      "../other/*.md",                     # ERROR: contains "." or ".."; write a path relative to the folder of this file without them
      "./*.md",                            # ERROR: contains "." or ".."
      "prompts/**",                        # ERROR: does not end in ".md"; prompts are Markdown files
      "prompts/*.toml",                    # ERROR: ends in ".toml" for files that are not Gemini CLI's commands; write it like ".gemini/commands/**/*.toml"
      "prompts/*.hcl",                     # ERROR: does not end in ".md"
      "a**/b.md",                          # ERROR: has "**" beside other characters
      "a//b.md",                           # ERROR: has two slashes in a row
      "[a/b].md",                          # ERROR: has a class, an alternative or a \ without an end at "[a"
    ]
  }
  upstream "g" {
    files = ["${env("A_TOKEN")}.md"]       # ERROR: Sensitive files
  }
  upstream "e" {
    files       = ["e/*.md"]
    transport   = "stdio"                  # ERROR: transport without a server; Prompts from files need no server, so transport has no effect; remove it.
    protocol    = "auto"                   # ERROR: protocol without a server
    timeout     = "1s"                     # ERROR: timeout without a server
    refresh     = "10s"                    # ERROR: refresh without a server
    concurrency = 1                        # ERROR: concurrency without a server
    rate        = 1                        # ERROR: rate without a server
    max_message = 1                        # ERROR: max_message without a server
    when_down   = "hide"                   # ERROR: when_down without a server
    grace       = "1s"                     # ERROR: grace without a server
    headers     = { A = "b" }              # ERROR: headers without a server
    env         = { A = "b" }              # ERROR: env without a server
    breaker {}                             # ERROR: breaker without a server
    retry { attempts = 2 }                 # ERROR: retry without a server
    tls { server_name = "a" }              # ERROR: tls without a server
    oauth {                                # ERROR: oauth without a server
      token_url     = "https://a.example.com"
      client_id     = "a"
      client_secret = env("SECRET")
    }
  }
  upstream "f" {
    url   = "https://f.example.com"
    format = "claude"                      # ERROR: format without files; Only prompts from files have a format; remove it.
    texts = true                           # ERROR: texts without files; Only prompts from files have texts to approve; remove it.
  }
}

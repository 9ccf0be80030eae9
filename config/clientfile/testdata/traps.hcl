# Made by promptweir import from traps.json.
# It needs these variables in the gateway's environment:
# - FLAGS_PAT: written out in the client's file
# - FLAGS_AUTH: written out in the client's file
# - FLAGS_T: written out in the client's file
# - FLAGS_K: written out in the client's file
# - FLAGS_U: written out in the client's file
# - CONTAINER_API_KEY: written out in the client's file
# - RANDOM_SECRET: written out in the client's file
# - RANDOM_SECRET_2: written out in the client's file
# - SIGNED_SIG: written out in the client's file
# - SIGNED_CODE: written out in the client's file
# - BOTH_X_TEAM: written out in the client's file
# - MODE: written out in the client's file
# - PATH_2: written out in the client's file
# - LEVEL_OF_TEAM
# - MODE_2: written out in the client's file
# - LEVEL_OF_TEAM_2: written out in the client's file

team "mine" {
  upstream "flags" {
    command = ["server", "--pat", env("FLAGS_PAT"), "--auth", env("FLAGS_AUTH"), "-t", env("FLAGS_T"), "-k", env("FLAGS_K"), "-u", env("FLAGS_U")]
  }

  upstream "container" {
    command = ["docker", "run", "-i", "-t", "-u", "1000", "-e", "API_KEY=${env("CONTAINER_API_KEY")}", "mcp/server"]
  }

  upstream "random" {
    command = ["server", env("RANDOM_SECRET"), env("RANDOM_SECRET_2"), "--model", "claude-sonnet-4-5-20250929"]
  }

  upstream "signed" {
    url = "https://a.example.com/mcp?sv=1&sig=${env("SIGNED_SIG")}&code=${env("SIGNED_CODE")}"
  }

  # Not imported: url, as there is httpUrl.
  upstream "both" {
    url = "https://a.example.com/mcp"
    headers = {
      X-Team  = env("BOTH_X_TEAM")
      X-Empty = ""
    }
    timeout = "600s"
  }

  upstream "first" {
    command = ["a"]
    env = {
      MODE  = env("MODE")
      PATH  = env("PATH_2")
      LEVEL = env("LEVEL_OF_TEAM")
    }
  }

  # Not imported: timeout, which is not a positive whole number.
  upstream "second" {
    command = ["b"]
    env = {
      MODE          = env("MODE_2")
      LEVEL_OF_TEAM = env("LEVEL_OF_TEAM_2")
    }
  }

  # Not imported: cwd, as there is no folder /nowhere/at/all on this machine.
  upstream "gone" {
    command = ["c", "$MODE", "$${MODE}"]
    env     = { MODE = env("MODE") }
  }
}

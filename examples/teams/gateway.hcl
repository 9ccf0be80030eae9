# A company with three teams. README.md beside this file walks through it; make run-teams serves it.
#
# This file belongs to the platform team. It says who callers are, what no team may show, and what each team's file may use.

gateway {
  listen       = "127.0.0.1:8080"
  instructions = "Prompts of the engineering, operations and support teams."

  # Keeps the servers' lists for the next start, and for commands that need them without contacting the servers.
  state_dir = "bin/teams"

  # Leaves out each prompt whose definition differs from the one approved in promptweir.lock.hcl.
  lock = "enforce"

  # Rejects text that people cannot see but models read, and a well-known injection.
  screen "no hidden instructions" {
    invisible = true
    patterns  = ["(?i)ignore (all )?previous instructions"]
  }

  # For each caller separately.
  limit {
    rate        = 20 # requests per second
    burst       = 50
    concurrency = 10
  }
}

admin {
  listen = "127.0.0.1:8081"
}

# Throw-away examples: anybody can read the tokens in README.md. Make your own with: promptweir token LABEL --group NAME
auth {
  token "alice" { # user:alice
    sha256 = "82ca2e49b1afb00a227e3206c8fbb4921d89f2bf033445c266380e98331a1846"
    groups = ["engineering", "on-call"]
  }
  token "bob" {
    sha256 = "62d6dfd9bca60074491e736092352d7ba2049d25449e5507774ec69cd53140cb"
    groups = ["operations"]
  }
  token "carol" { # in no group: the support team lists her
    sha256 = "01342aad188fd45023eb558e97719f56ed24eb1c756e905798790b79174b1a7b"
  }
}

# Applies to all teams, and no expose block can undo it.
hide "drafts" { prompts = ["*.draft_*"] }

# What each team's file may use. Anything else is refused when the configuration is loaded.
allow "engineering" { commands = ["bin/reviews"] }
allow "operations" { hosts = ["127.0.0.1"] }
allow "support" { commands = ["bin/letters"] }

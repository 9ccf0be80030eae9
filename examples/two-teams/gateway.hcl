# Two teams, each with a token. A team's prompts are its own until it exposes them. A prompt that a
# caller may not see does not exist for that caller: it is not listed, and a get is answered like that
# of an unknown name.
#
#   make build
#   bin/handbook &
#   bin/promptweir serve --config examples/two-teams
#   bin/promptweir list --url http://127.0.0.1:8080/mcp --token engineering-demo
#   bin/promptweir list --url http://127.0.0.1:8080/mcp --token operations-demo
#
#                                   engineering-demo   operations-demo
#   reviews.code_review             own                exposed by engineering
#   reviews.commit_message          own                -
#   handbook.incident_report        exposed            own
#   handbook.shift_handover         -                  -    hidden by operations itself
#   handbook.incident_of_the_day    -                  -    hidden by the gateway

gateway {
  listen = "127.0.0.1:8080"
}

admin {
  listen = "127.0.0.1:8081"
}

# The configuration has a token's SHA-256, never the token itself. These two are only for this
# example, since anybody can read the tokens above. Make your own with
#
#   token=$(openssl rand -hex 32); printf %s "$token" | sha256sum
auth {
  token "engineering-demo" { # the label is the caller's name: user:engineering-demo
    sha256 = "7550b479eaa43530c9027ed3a1bf844261393a1d8a5380cc11d178fa74a690cc"
    groups = ["engineering"]
  }
  token "operations-demo" {
    sha256 = "ba731eba5bdae5579efa6dc4212cd2db13b5b6fcc798b63de145ca1fce19615c"
    groups = ["operations"]
  }
}

# Applies to all teams, and no expose block can undo it.
hide "nothing that changes by the hour" {
  prompts = ["*.incident_of_the_day"]
}

# What each team's file may use. Once there is any allow block, everything that is not granted is
# refused when the configuration is loaded.
allow "engineering" {
  commands = ["bin/reviews"]
}

allow "operations" {
  hosts = ["127.0.0.1"]
}

# The quickstart: one endpoint for the prompts of two teams, which are files. No server is needed.
#
#   make run                                                   builds bin/promptweir, and serves this folder
#   bin/promptweir list --url http://127.0.0.1:8080/mcp
#   bin/promptweir get reviews.code_review code='x := 1' --url http://127.0.0.1:8080/mcp
#
# This file belongs to the platform team. Each other team has a file under teams/. The addresses
# below are the defaults, spelled out for you to see.

gateway {
  listen       = "127.0.0.1:8080" # anything but loopback needs an auth block
  path         = "/mcp"           # so clients use http://127.0.0.1:8080/mcp
  instructions = "Prompts of the engineering and operations teams."
}

# Health and metrics, on an address of their own: /healthz, /readyz and /metrics.
admin {
  listen = "127.0.0.1:8081"
}

# There is no auth block, so everybody is anonymous and a member of every team, and sees all prompts.
# examples/two-teams has servers, tokens, and teams that see only part of each other's prompts.

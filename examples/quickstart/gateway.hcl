# The quickstart: one endpoint in front of two small MCP servers that belong to two teams.
#
#   make run                                                   builds, and serves this folder
#   go run ./cmd/promptweir list --url http://127.0.0.1:8080/mcp
#   go run ./cmd/promptweir get reviews.code_review code='x := 1' --url http://127.0.0.1:8080/mcp
#
# This file belongs to whoever runs the gateway. Each team has a file of its own under teams/. The
# addresses below are the defaults, written down so that you see them.

gateway {
  listen       = "127.0.0.1:8080" # without an auth block only loopback may be listened on
  path         = "/mcp"           # clients are pointed at http://127.0.0.1:8080/mcp
  instructions = "Prompts of the engineering and operations teams."
}

# Health and metrics, apart from what clients reach: /healthz, /readyz and /metrics.
admin {
  listen = "127.0.0.1:8081"
}

# There is no auth block, so everybody is anonymous and in every team: all prompts are listed.
# examples/two-teams shows tokens, and what each team then sees of the other.

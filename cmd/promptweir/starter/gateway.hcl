# The platform team's file: where the gateway listens, and who may connect. Every attribute has a default.

gateway {
  listen = "127.0.0.1:8080" # clients use http://127.0.0.1:8080/mcp
}

# Health, metrics and the operators' console.
admin {
  listen = "127.0.0.1:8081"
}

# Without an auth block, everybody is a member of every team, and the gateway listens on loopback only.
# "promptweir token NAME" prints a token, and the block that accepts it:
#
# auth {
#   token "ann" {
#     sha256 = "…"
#     groups = ["mine"]
#   }
# }

# A server from npm next to one of ours. Needs Node 20 or later; npx fetches the package on the
# first start.
#
#   make build
#   bin/promptweir serve --config examples/everything
#   bin/promptweir list --url http://127.0.0.1:8080/mcp

gateway {
  listen = "127.0.0.1:8080"
}

admin {
  listen = "127.0.0.1:8081"
}

#!/bin/sh
# The client of the conformance suite, which calls it as: client.sh PROMPTWEIR URL.
#
# The suite passes its instructions in the environment. They become flags here, so that the program
# itself knows nothing of the suite.
program=$1 revision=$MCP_CONFORMANCE_PROTOCOL_VERSION
shift
case $MCP_CONFORMANCE_SCENARIO in
auth/client-credentials-*)
  set -- "$@" --client-id "$(node -p 'JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT).client_id')"
  key=$(node -p 'JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT).private_key_pem ?? ""')
  if [ -n "$key" ]; then
    file=$(mktemp) && trap 'rm -f "$file"' EXIT && printf '%s\n' "$key" >"$file"
    set -- "$@" --private-key "$file"
  else
    PROMPTWEIR_CLIENT_SECRET=$(node -p 'JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT).client_secret')
    export PROMPTWEIR_CLIENT_SECRET
  fi
  ;;
esac
unset MCP_CONFORMANCE_SCENARIO MCP_CONFORMANCE_PROTOCOL_VERSION MCP_CONFORMANCE_CONTEXT
"$program" probe --protocol "$revision" "$@"

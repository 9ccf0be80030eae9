#!/bin/sh
# The client of the conformance suite, which calls it as: client.sh PROMPTWEIR URL.
#
# The suite says what it wants in the environment. Here that becomes a flag, so that the program itself
# knows nothing of the suite.
program=$1 revision=$MCP_CONFORMANCE_PROTOCOL_VERSION
shift
unset MCP_CONFORMANCE_SCENARIO MCP_CONFORMANCE_PROTOCOL_VERSION MCP_CONFORMANCE_CONTEXT
exec "$program" probe --protocol "$revision" "$@"

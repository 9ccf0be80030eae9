#!/bin/sh
# The client of the conformance suite, which calls it as: client.sh PROMPTWEIR URL.
#
# The suite passes its instructions in the environment. They become flags, or a configuration, here, so
# that the program itself knows nothing of the suite.
program=$1 revision=$MCP_CONFORMANCE_PROTOCOL_VERSION
shift
case $MCP_CONFORMANCE_SCENARIO in
auth/client-credentials-*)
  folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
  node --input-type=module - "$1" "$folder" <<'SCRIPT' || exit
import { writeFileSync } from "node:fs";
import { join } from "node:path";

// An upstream's token endpoint is configured. The suite tells it in its metadata only.
const [url, folder] = process.argv.slice(2);
const read = async (address, name) => {
  const { origin, pathname } = new URL(address);
  return (await fetch(`${origin}/.well-known/${name}${pathname.replace(/\/$/, "")}`)).json();
};
const resource = await read(url, "oauth-protected-resource");
const [issuer] = resource.authorization_servers;
const { token_endpoint } = await read(issuer, "oauth-authorization-server");
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT);
const oauth = { token_url: token_endpoint, client_id: context.client_id, scopes: resource.scopes_supported ?? [] };
if (context.private_key_pem) {
  writeFileSync(join(folder, "key.pem"), context.private_key_pem);
  Object.assign(oauth, { private_key_file: "key.pem", issuer });
} else {
  oauth.client_secret = context.client_secret;
}
const lines = Object.entries(oauth).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
const protocol = process.env.MCP_CONFORMANCE_PROTOCOL_VERSION;
writeFileSync(join(folder, "gateway.hcl"), `team "conformance" {
  upstream "suite" {
    url      = ${JSON.stringify(url)}
    protocol = ${JSON.stringify(protocol)}
    oauth {
      ${lines.join("\n      ")}
    }
  }
}
`);
SCRIPT
  set -- list --live --config "$folder"
  ;;
sep-2640-client-*)
  # A gateway in front of the suite's server, asked for all skills and, where one is to be refused, for its SKILL.md.
  folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
  cat >"$folder/gateway.hcl" <<CONFIG
team "conformance" {
  upstream "suite" {
    url    = "$1"
    skills = "only"
  }
}
CONFIG
  scenario=$MCP_CONFORMANCE_SCENARIO
  unset MCP_CONFORMANCE_SCENARIO MCP_CONFORMANCE_PROTOCOL_VERSION MCP_CONFORMANCE_CONTEXT
  "$program" list --skills --live --config "$folder" || exit
  [ "$scenario" = sep-2640-client-no-prefetch ] && exit
  "$program" get --skill skill:suite.pdf-processing --config "$folder"
  exit
  ;;
*)
  # A gateway in front of the suite's server lists its prompts and gets each of them.
  folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
  cat >"$folder/gateway.hcl" <<CONFIG
team "conformance" {
  upstream "suite" {
    url      = "$1"
    protocol = "$revision"
    prefix   = ""
  }
}
CONFIG
  unset MCP_CONFORMANCE_SCENARIO MCP_CONFORMANCE_PROTOCOL_VERSION MCP_CONFORMANCE_CONTEXT
  "$program" list --config "$folder" -o json >"$folder/list.json" || exit
  cat "$folder/list.json"
  node --input-type=module - "$program" "$folder" <<'SCRIPT'
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

const [program, folder] = process.argv.slice(2);
const { prompts } = JSON.parse(readFileSync(`${folder}/list.json`));
const failed = prompts.filter(({ name, arguments: declared = [] }) => {
  const given = declared.filter((argument) => argument.required).map((argument) => `${argument.name}=placeholder`);
  return spawnSync(program, ["get", "--config", folder, "--", name, ...given], { stdio: "inherit" }).status !== 0;
});
process.exit(failed.length > 0 ? 1 : 0);
SCRIPT
  exit
  ;;
esac
unset MCP_CONFORMANCE_SCENARIO MCP_CONFORMANCE_PROTOCOL_VERSION MCP_CONFORMANCE_CONTEXT
"$program" "$@"

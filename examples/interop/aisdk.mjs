// The MCP client of the AI SDK, which knows tools only: URL, and a revision of the era to speak. It prints, as JSON, the revision, the
// tools, what list_prompts finds for some words, and what get_prompt says of a prompt and of one that does not exist.
import { createMCPClient } from '@ai-sdk/mcp';

const [url, wanted] = process.argv.slice(2);
let revision = '';
const watched = async (input, init) => {
  const header = new Headers(init?.headers ?? input.headers).get('mcp-protocol-version');
  revision = header ?? revision;
  return fetch(input, init);
};
const client = await createMCPClient({ transport: { type: 'http', url, fetch: watched }, protocolVersionDiscovery: wanted >= '2026' });
const tools = await client.tools();
const call = (name, args) => tools[name].execute(args, { toolCallId: '1', messages: [] });
const found = await call('list_prompts', { query: 'weather in a city' });
const got = await call('get_prompt', { name: 'everything.args-prompt', arguments: { city: 'Oslo', state: 'Norway' } });
const unknown = await call('get_prompt', { name: 'everything.none' });
console.log(JSON.stringify({
  revision, tools: Object.keys(tools).sort(), found: found.structuredContent.prompts.map((p) => p.name),
  got: got.content.map((c) => c.text).join(), unknown: [unknown.isError, unknown.content[0].text],
}));
await client.close();

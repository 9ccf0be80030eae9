// Both clients of the TypeScript SDK, version 2 as "legacy" or pinned to a revision, version 1 as "v1". It gets each prompt twice,
// reads the link in its result, and prints what it saw.
//
//   node links.mjs URL MODE PROMPT...
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Transport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, mode, ...prompts] = process.argv.slice(2);
const info = { name: 'promptweir-interop-links', version: '1.0.0' };
const client = mode === 'v1' ? new Client1(info)
  : new Client(info, { versionNegotiation: { mode: mode === 'legacy' ? mode : { pin: mode } } });
await client.connect(mode === 'v1' ? new Transport1(new URL(url)) : new StreamableHTTPClientTransport(new URL(url)));

const seen = [];
for (const name of prompts) {
  const [first, again] = [await client.getPrompt({ name }), await client.getPrompt({ name })];
  const { uri } = first.messages[0].content;
  const { contents } = await client.readResource({ uri });
  let unknown;
  try {
    await client.readResource({ uri: uri.replace('://', '://x') });
  } catch (error) {
    unknown = error.code;
  }
  seen.push({
    uri, same: JSON.stringify(first) === JSON.stringify(again), read: contents[0].uri, text: contents[0].text, unknown,
    resources: client.getServerCapabilities().resources !== undefined,
  });
}
await client.close();
process.stdout.write(JSON.stringify(seen) + '\n', () => process.exit(0)); // streams may still be open

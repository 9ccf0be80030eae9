// Lists prompts as an author would who knows nothing of pages, with the SDK's own call, and then by hand page by page.
//
//	node first_call.mjs sdk1|client2 URL
//
// It prints how many prompts the call returned and how many all pages have, as {"first": N, "all": N}.
const [sdk, url] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = sdk === 'sdk1'
  ? {
    ...await import('@modelcontextprotocol/sdk/client/index.js'),
    ...await import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
  }
  : await import('@modelcontextprotocol/client');

const client = new Client({ name: `promptweir-interop-${sdk}`, version: '1.0.0' });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const first = (await client.listPrompts()).prompts.length;
let all = 0;
let cursor;
do {
  const page = await client.listPrompts({ cursor }); // which in 2.x gathers all pages, and then gives no cursor
  all += page.prompts.length;
  cursor = page.nextCursor;
} while (cursor !== undefined);
await client.close();
console.log(JSON.stringify({ first, all }));

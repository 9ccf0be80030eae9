// The TypeScript SDK's clients without a credential, at one address after the other, as a client that is registered. Each walks from
// the challenge to the document to the resource, and stops where a person would sign in. It prints the resource that each asks a token for.
//
//   node walk.mjs URL...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const resources = {};
for (const address of process.argv.slice(2)) {
  const Transport = address.endsWith('/sse') ? SSEClientTransport : StreamableHTTPClientTransport;
  const authProvider = {
    redirectUrl: 'http://127.0.0.1:9/callback',
    clientMetadata: { redirect_uris: ['http://127.0.0.1:9/callback'] },
    clientInformation: () => ({ client_id: 'mcp-clients' }),
    tokens: () => undefined,
    saveTokens: () => {},
    saveCodeVerifier: () => {},
    codeVerifier: () => '',
    redirectToAuthorization: (url) => { resources[address] = url.searchParams.get('resource'); },
  };
  try {
    await new Client({ name: 'promptweir-interop-walk', version: '1.0.0' }).connect(new Transport(new URL(address), { authProvider }));
    resources[address] = 'connected without a credential';
  } catch (error) {
    resources[address] ??= String(error);
  }
}
console.log(JSON.stringify(resources));
process.exit(0);

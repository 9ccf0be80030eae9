// The TypeScript SDK 1.x without a credential: it discovers the identity provider from the gateway's 401,
// registers there or is a registered client, has its user sign in, and returns with a token.
//
//   node login.mjs URL USER [CLIENT-ID]
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { signIn } from './signin.mjs';

const [endpoint, user, clientID] = process.argv.slice(2);
const kept = clientID ? { client: { client_id: clientID } } : {};
let code;

/** What an application keeps for the SDK. */
const authProvider = {
  redirectUrl: 'http://127.0.0.1:9/callback',
  clientMetadata: {
    client_name: 'promptweir-interop-login', application_type: 'native', redirect_uris: ['http://127.0.0.1:9/callback'],
    grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none',
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: async (url) => { code = (await signIn(url, user, authProvider.redirectUrl)).searchParams.get('code'); },
};

const connect = async () => {
  const transport = new StreamableHTTPClientTransport(new URL(endpoint), { authProvider });
  const client = new Client({ name: 'promptweir-interop-login', version: '1.0.0' });
  try {
    await client.connect(transport);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError) || code === undefined) throw error;
    const redeemed = code;
    code = undefined;
    await transport.finishAuth(redeemed);
    return connect();
  }
};

const client = await connect();
const { prompts } = await client.listPrompts();
const got = await client.getPrompt({ name: prompts[0].name, arguments: { name: user } });
await client.close();
console.log(JSON.stringify({ scope: kept.tokens.scope, prompts: prompts.map((prompt) => prompt.name), text: got.messages[0].content.text }));
process.exit(0);

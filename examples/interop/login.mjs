// The TypeScript SDK 1.x without a credential: it discovers the identity provider from the gateway's 401,
// registers there, has its user sign in, and returns with a token.
//
//   node login.mjs URL USER
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [endpoint, user] = process.argv.slice(2);
const kept = {};
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
  redirectToAuthorization: async (url) => { code = await signIn(url); },
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
await client.close();
console.log(JSON.stringify({ scope: kept.tokens.scope, prompts: prompts.map((prompt) => prompt.name) }));
process.exit(0);

/** Does what a person does in a browser: fills in the forms that come, until there is a code. */
async function signIn(start) {
  const cookies = new Map();
  let request = [start, {}];
  for (let steps = 0; steps < 20; steps++) {
    const [url, init] = request;
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { ...init, redirect: 'manual', headers: { ...init.headers, cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (location) {
      const next = new URL(location, url);
      if (next.href.startsWith(authProvider.redirectUrl)) {
        if (!next.searchParams.get('code')) throw new Error(`no code in ${next.search}`);
        return next.searchParams.get('code');
      }
      request = [next, {}];
      continue;
    }
    const page = await response.text();
    const form = /<form[^>]*action="([^"]+)"/.exec(page);
    const prompt = /name="prompt" value="([^"]+)"/.exec(page);
    if (!form || !prompt) throw new Error(`HTTP ${response.status}, and no form: ${page.slice(0, 500)}`);
    const body = new URLSearchParams({ prompt: prompt[1], login: user, password: 'any' });
    request = [new URL(form[1], url), { method: 'POST', body }];
  }
  throw new Error('signing in does not end');
}

// A certified OpenID provider on loopback, for the tests. People sign in on its development pages, programs with client
// credentials. It prints its issuer, and replaces its signing key for each line on its standard input. As "static", it lets no client
// register, and knows the public client "mcp-clients", at any port of loopback.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

/** What the gateway's audience is, whatever address it listens at. */
const AUDIENCE = 'https://prompts.example.com/mcp';

const isStatic = process.argv[2] === 'static';
const registered = {
  client_id: 'mcp-clients', token_endpoint_auth_method: 'none', application_type: 'native', scope: 'openid prompts:read',
  redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback'], grant_types: ['authorization_code'],
  response_types: ['code'],
};

const server = createServer((request, response) => current(request, response));
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;
let current = await provider('first');
console.log(issuer);

let keys = 1;
for await (const _ of createInterface({ input: process.stdin })) {
  current = await provider(`rotated-${keys++}`);
  console.log('rotated');
}
process.exit(0);

async function provider(kid) {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const program = (id, scope) => ({
    client_id: id, client_secret: `${id}-secret`, grant_types: ['client_credentials'], redirect_uris: [], response_types: [], scope,
  });
  return new Provider(issuer, {
    clients: [program('program', 'prompts:read'), program('visitor', 'other'), program('brief', 'prompts:read'), ...(isStatic ? [registered] : [])],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid, alg: 'RS256', use: 'sig' }] },
    cookies: { keys: ['interop'] },
    scopes: ['openid', 'prompts:read', 'other'],
    ttl: { ClientCredentials: (_ctx, _token, client) => (client.clientId === 'brief' ? 2 : 600), AccessToken: 600 },
    extraTokenClaims: () => ({ groups: ['engineering'] }),
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    features: {
      clientCredentials: { enabled: true },
      registration: { enabled: !isStatic },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource) => ({
          scope: 'prompts:read other',
          audience: new URL(resource).pathname === '/mcp' ? AUDIENCE : resource,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
        useGrantedResource: () => true,
      },
    },
  }).callback();
}

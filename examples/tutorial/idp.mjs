// An OpenID provider on loopback, with two users who need no browser: Alice of support, and Bob of the platform team.
//
//   node idp.mjs             serves it
//   node idp.mjs alice       prints a token of Alice
import { once } from 'node:events';
import { createServer } from 'node:http';

const at = 'http://127.0.0.1:9400';
const resource = 'http://127.0.0.1:8080/mcp';
const groups = { alice: ['support'], bob: ['platform'] };

const user = process.argv[2];
if (user) {
  const response = await fetch(`${at}/token`, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa(`${user}:${user}-secret`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource }),
  });
  console.log((await response.json()).access_token);
} else {
  const { exportJWK, generateKeyPair } = await import('jose');
  const { default: Provider } = await import('oidc-provider');
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const server = createServer((request, response) => serve(request, response));
  server.listen(Number(new URL(at).port), '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const serve = new Provider(issuer, {
    clients: Object.keys(groups).map((id) => ({
      client_id: id, client_secret: `${id}-secret`, grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
    })),
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'tutorial', alg: 'RS256', use: 'sig' }] },
    cookies: { keys: ['tutorial'] },
    ttl: { ClientCredentials: 24 * 60 * 60 },
    extraTokenClaims: (_ctx, token) => ({ groups: groups[token.clientId] }),
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ scope: '', audience: resource, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
      },
    },
  }).callback();
  console.log(issuer);
}

// A double of Entra, of what its documents say that it refuses; it is not Entra. It knows one resource and its scope, which clients
// have to request by the full name, lets no client register, and puts the short name into scp. It signs in whoever comes.
// It prints its issuer.
//
//   node entra.mjs RESOURCE
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

const RESOURCE = process.argv[2];
const FULL = `${RESOURCE}/prompts.read`;
const { privateKey, publicKey } = await generateKeyPair('RS256');
const jwk = { ...(await exportJWK(publicKey)), kid: 'entra', use: 'sig', alg: 'RS256' };
const codes = new Map();
const server = createServer((request, response) => serve(request, response).catch((error) => response.destroy(error)));
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}/tenant/v2.0`;
console.log(issuer);

const refusal = (error, code, text) => ({ error, error_description: `AADSTS${code}: ${text}` });

/** Returns why Entra refuses the parameters of a request; undefined if it does not. */
function refuse(params) {
  if (params.get('client_id') !== 'mcp-clients') return refusal('unauthorized_client', 700016, 'The application was not found in the directory.');
  const resource = params.get('resource');
  if (resource && resource !== RESOURCE) return refusal('invalid_target', 500011, `The resource principal named ${resource} was not found in the tenant.`);
  const scopes = (params.get('scope') ?? '').split(' ').filter((scope) => !['openid', 'profile', 'offline_access', ''].includes(scope));
  if (!scopes.includes(FULL)) {
    // A short name is one of Microsoft Graph's, which has no such scope.
    return refusal('invalid_scope', 65001, `The application asked for scope '${scopes.join(' ')}' that doesn't exist on the resource '00000003-0000-0000-c000-000000000000'.`);
  }
  return undefined;
}

async function serve(request, response) {
  const url = new URL(request.url, issuer);
  const json = (status, body) => { response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body)); };
  if (url.pathname === '/tenant/v2.0/.well-known/openid-configuration') {
    return json(200, {
      issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys`,
      response_types_supported: ['code'], token_endpoint_auth_methods_supported: ['none'],
      subject_types_supported: ['pairwise'], id_token_signing_alg_values_supported: ['RS256'],
    });
  }
  if (url.pathname.endsWith('/keys')) return json(200, { keys: [jwk] });
  if (url.pathname.endsWith('/authorize')) {
    const refused = refuse(url.searchParams);
    const back = new URL(url.searchParams.get('redirect_uri'));
    const code = randomUUID();
    codes.set(code, url.searchParams);
    for (const [name, value] of Object.entries(refused ?? { code })) back.searchParams.set(name, value);
    back.searchParams.set('state', url.searchParams.get('state') ?? '');
    return response.writeHead(302, { location: back.href }).end();
  }
  if (url.pathname.endsWith('/token')) {
    let body = '';
    for await (const chunk of request) body += chunk;
    const params = new URLSearchParams(body);
    const begun = codes.get(params.get('code'));
    codes.delete(params.get('code'));
    const challenge = createHash('sha256').update(params.get('code_verifier') ?? '').digest('base64url');
    if (!begun || challenge !== begun.get('code_challenge')) return json(400, refusal('invalid_grant', 9002313, 'The code is not valid.'));
    const token = await new SignJWT({ scp: 'prompts.read', roles: ['engineering'], oid: 'alice', ver: '2.0' })
      .setProtectedHeader({ alg: 'RS256', kid: 'entra', typ: 'JWT' }).setIssuer(issuer).setSubject('pairwise').setAudience('the-guid')
      .setIssuedAt().setExpirationTime('10m').sign(privateKey);
    return json(200, { access_token: token, token_type: 'Bearer', expires_in: 600, scope: FULL });
  }
  return json(404, { error: 'not_found' });
}

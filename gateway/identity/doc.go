// Package identity answers: who is calling?
//
// An [Authenticator] turns a credential into a principal. Its sources of principals are the token
// blocks, each jwt block (an issuer of access tokens), and client certificates.
//
//	Authorization: Bearer …  ─▶ the hash of a token block?  ─▶ its label and groups
//	                         └▶ a JWT? ─▶ its iss selects the block ─▶ signature, aud, exp, nbf ─▶ claims, scopes
//	client certificate       ─▶ its first URI, else its first e-mail address, else its common name
//	nothing                  ─▶ anonymous, where that is allowed
//
// If a request has both a token and a certificate, the token decides. With several sources, each
// source prefixes its subjects and groups with its "as": user:corp/alice, group:corp/payments.
//
// Promises:
//
//   - A bad credential is always an error, even if no credential is required.
//   - If an issuer's keys cannot be fetched, the error for its tokens is [ErrUnavailable] and not
//     [ErrBadCredential]. Tokens that were verified before are accepted until they expire.
//   - If there is no auth block, credentials are ignored: everyone is anonymous and a member of every
//     team.
//   - Errors contain no secret. They repeat at most iss, aud and exp of a JWT. Response times reveal
//     nothing about the configured tokens.
//   - An Authenticator is safe for concurrent use. Its only changing state is the issuers' keys and
//     the verified tokens. Nothing is fetched before the first JWT, and no goroutine outlives a call.
package identity

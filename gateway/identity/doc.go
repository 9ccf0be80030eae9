// Package identity answers: who is calling?
//
// An [Authenticator] turns a credential into a principal. There are three kinds of sources: all
// token blocks together; each jwt block, which is an issuer of access tokens; and client
// certificates.
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
//   - A bad credential is always an error, even if none is required.
//   - If an issuer cannot be reached, tokens are neither accepted nor bad: the error is
//     [ErrUnavailable]. Tokens that were accepted before stay accepted until they expire.
//   - Without an auth block credentials are ignored: everyone is anonymous and a member of every
//     team.
//   - Errors contain no secret, and of a JWT at most iss, aud and exp. Response times reveal
//     nothing about the configured tokens.
//   - An Authenticator is safe for concurrent use. Only the issuers' keys and the tokens that they
//     verified change. Nothing is fetched before the first JWT, and no goroutine outlives a call.
package identity

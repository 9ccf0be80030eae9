// Package identity answers: who is calling?
//
// An [Authenticator] turns a credential into a principal. There are three kinds of source: the
// token blocks, which count as one source together; each jwt block, which stands for an issuer of
// access tokens; and client certificates.
//
//	Authorization: Bearer …  ─▶ the hash of a token block?  ─▶ its label and groups
//	                         └▶ a JWT? ─▶ its iss selects the block ─▶ signature, aud, exp, nbf ─▶ claims, scopes
//	client certificate       ─▶ its first URI, else its first e-mail address, else its common name
//	nothing                  ─▶ anonymous, where that is allowed
//
// If a request has both a token and a certificate, the token decides. With several sources, each
// prefixes the subjects and groups that it vouches for with its "as": user:corp/alice,
// group:corp/payments.
//
// Promises:
//
//   - A bad credential is always an error, even where none is required.
//   - An issuer that cannot be reached does not make a token bad: with [ErrUnavailable] it is
//     neither accepted nor bad. Tokens that were accepted stay accepted meanwhile, until they
//     expire.
//   - Without an auth block no credential is looked at: everybody is anonymous and a member of
//     every team.
//   - No error contains any part of a credential, and response times say nothing about the tokens
//     that exist.
//   - An Authenticator is safe for concurrent use. All that changes in it is what it knows of
//     issuers' keys: nothing is fetched before the first JWT arrives, and no goroutine outlives a
//     call.
package identity

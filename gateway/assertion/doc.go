// Package assertion answers: how does a server learn who calls?
//
// By a JWT, signed by the gateway, in a header of each get, completion and read. Promises:
//   - An assertion names one caller and one audience, and is valid for a minute at most.
//   - A [Signer] belongs to one configuration. Nothing that it remembers outlives that.
//   - Anonymous callers have none.
package assertion

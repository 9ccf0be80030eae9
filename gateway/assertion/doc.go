// Package assertion answers: how does a server learn who is calling?
// If an upstream has an assertion block, the gateway sends it a JWT about the caller in a header of
// each get, completion and read. Promises:
//   - An assertion names one caller and one audience, and is valid for at most a minute.
//   - A [Signer] and its cache belong to one configuration.
//   - There are no assertions about anonymous callers.
package assertion

// Package assertion answers: how does a server learn who is calling?
// If an upstream has an assertion block, each of its gets, completions and reads has a header with
// a JWT that the gateway signed. Promises:
//   - An assertion names one caller and one audience, and is valid for at most a minute.
//   - A [Signer] belongs to one configuration, and so does its cache.
//   - There are no assertions for anonymous callers.
package assertion

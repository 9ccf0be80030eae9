// Package schema answers: does a JSON value satisfy an untrusted JSON Schema?
//
// The validator is github.com/santhosh-tekuri/jsonschema. This package adds bounds: without them, an
// upstream's hostile schema or a client's hostile value could keep the validator busy forever.
//
// Promises:
//   - The dialect is JSON Schema 2020-12, or the dialect in $schema: 2019-09, draft-07, -06 or -04.
//     The format keyword is asserted up to draft-07, and ignored since 2019-09.
//   - Nothing is loaded from the network or from a file. A schema with a reference to another
//     document does not compile ([ErrExternal]). The meta-schemas of the dialects are built in.
//   - Patterns have the syntax of RE2, which does not backtrack. Other patterns, such as
//     lookaheads, do not compile.
//   - Numbers are compared exactly. A number with more than 1000 digits is refused.
//   - A check ends soon after a quarter of a second for any input. Checks of one schema run one
//     after another.
package schema

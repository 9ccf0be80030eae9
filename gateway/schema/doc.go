// Package schema answers: does a JSON value satisfy an untrusted JSON Schema?
//
// The validator is github.com/santhosh-tekuri/jsonschema. This package adds bounds, because a
// hostile schema from an upstream, or a hostile value from a client, could keep a validator busy
// forever.
//
// Promises:
//   - The dialect is JSON Schema 2020-12, or the dialect in $schema: 2019-09, draft-07, -06 or -04.
//     The dialect decides whether format is asserted. Since 2019-09 it is not.
//   - Nothing is loaded from the network or from a file. A schema with a reference to another
//     document does not compile ([ErrExternal]). The meta-schemas of the dialects are built in.
//   - Patterns have the syntax of RE2, which does not backtrack. Other patterns, such as
//     lookaheads, do not compile.
//   - Numbers are compared exactly. A number with more than 1000 digits is refused.
//   - A check ends soon after a quarter of a second for any input. Checks of one schema run one
//     after another.
package schema

// Package screen answers: does a prompt contain anything that people and models must not get?
//
// A [Screen] applies the screen blocks of one team and of the gateway. It checks every string in raw
// JSON, including member names, and leaves all other bytes unchanged.
//
// Promises:
//
//   - After stripping, a second pass finds nothing to strip.
//   - Stripping changes only title, description and text, because people and models read these members.
//     Stripping a name, a URI or data would change its meaning, so a finding there rejects the whole
//     value.
//   - A [Finding] does not repeat the text that was found.
//   - A Screen is immutable and safe for concurrent use.
package screen

// Package screen answers: does a prompt contain anything that people and models must not get?
//
// A [Screen] contains the screen blocks of one team's prompts. It checks every string in raw JSON,
// including member names, and leaves all other bytes unchanged.
//
// Promises:
//
//   - After stripping, a second pass finds nothing to strip.
//   - Only title, description and text are changed, which people and models read. Stripping a name,
//     a URI or data would change its meaning, so a finding there rejects the whole value.
//   - A [Finding] does not repeat the text that was found.
//   - A Screen is pure, apart from the clock that limits warnings. It is immutable and safe for
//     concurrent use.
package screen

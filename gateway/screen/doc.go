// Package screen answers: does a prompt contain anything that people and models must not get?
//
// A [Screen] has the screen blocks that hold for one team's prompts. It checks every string of raw
// JSON, the names of members included, and leaves the bytes of whatever it does not have to change.
//
// Promises:
//
//   - What is stripped is stripped for good: a second pass finds nothing to strip.
//   - Only title, description and text are ever changed, since people and models read those.
//     Stripping would change the meaning of a name, a URI or data, so a finding there rejects the
//     whole.
//   - No [Finding] repeats what was found.
//   - A Screen is pure, apart from the clock that limits warnings. It never changes and is safe for
//     concurrent use.
package screen

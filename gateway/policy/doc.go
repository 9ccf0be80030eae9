// Package policy answers: which prompts may a principal see, and which rule says so?
//
// A decision has two halves, each computed as rarely as possible:
//
//	                       when the entry or the policy changes
//	team, upstream, name ─────── Visibility ───▶ the rules that show the entry ──────┐
//	                                                                                 ├▶ Sees: any in common?
//	principal ────────────────── Audience ─────▶ the rules that apply to it ─────────┘
//	                       once per request
//
// Two kinds of rule show an entry: membership of the team that owns it, and the expose blocks of
// that team. A hide block without a condition removes the entry from everybody. What no rule shows
// is invisible: an unknown team or upstream, a nil [Visibility] and halves of two different
// policies all end there.
//
// The condition of a block ("when") is evaluated together with the Visibility if it reads only the
// prompt, and once for each audience if it reads the principal: an expose block's only where the
// block is for the audience, a hide block's only where the audience would otherwise see the entry.
// If it cannot be evaluated, or not within its budget of steps, a hide block hides and an expose
// block does not expose. All evaluations of one request have a [Budget], of steps and of time,
// which decides nothing: a request that exceeds it fails.
//
// Promises:
//
//   - Decisions depend on the owner. A name is only ever matched against the patterns of the
//     owner's team and of the gateway; it is never parsed.
//   - List, get, completion and notifications all call [Audience.Sees]; [Policy.Explain] and
//     [Policy.Readers] give the same answer with its reasons.
//   - A [Policy] never changes after its construction, is safe for concurrent use, and never
//     blocks.
package policy

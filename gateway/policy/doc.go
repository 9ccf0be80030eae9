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
// Two kinds of rules show an entry: membership in the team that owns it, and the expose blocks of
// that team. A hide block without a condition removes the entry for everyone. An entry without a
// rule is invisible. So is everything for an unknown team or upstream, a nil [Visibility], and
// halves of two different policies.
//
// The condition of a block ("when") is evaluated with the Visibility if it reads only the prompt,
// and once per audience if it reads the principal. An expose block's condition is evaluated only if
// the block is for the audience, a hide block's only if the audience would otherwise see the entry.
// If evaluation fails, a hide block hides and an expose block does not expose. All evaluations of
// one request end with its context. A request whose context ends first fails without a decision.
//
// Promises:
//
//   - Decisions depend on the owner. A name is only matched against the patterns of the owner's team
//     and of the gateway; it is never parsed.
//   - List, get, completion and notifications all call [Audience.Sees]. [Policy.Explain] and
//     [Policy.Readers] give the same answer with its reasons.
//   - A [Policy] is immutable, safe for concurrent use, and never blocks.
package policy

// Package skills answers: what is in a skill, and how do clients reach its files?
//
// A skill (io.modelcontextprotocol/skills, SEP-2640) is an entry of the catalog like a prompt, so
// that lists and visibility work the same way. This package contains the differences:
//
//	upstream's entry → [Parse] → [Skill] → [Skill.Under]   → the client's entry, below the prefix
//	                                ├────→ [Skill.File]    → the file that a client wants to read
//	                                ├────→ [Skill.Verify]  → its content, if it matches the entry
//	                                ├────→ [Directory.Add] → the content of a folder
//	                                └────→ [Skill.About]   → a line for operators
//
// Promises:
//   - Parse refuses entries that clients must not load: paths, digests and sizes in a Skill are valid.
//   - Verify accepts a content only with the size and digest in the manifest, and a SKILL.md only
//     with the front matter of the entry. A dynamic skill has no manifest.
//   - A Skill is immutable. This package calls no server, and its results do not depend on the caller.
package skills

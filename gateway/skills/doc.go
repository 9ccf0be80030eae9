// Package skills answers: what is in a skill, and how do clients reach its files?
//
// A skill (io.modelcontextprotocol/skills, SEP-2640) is an entry of the catalog like a prompt, so
// that lists and visibility work the same way. This package has the differences:
//
//	server's entry → [Parse] → [Skill] → [Skill.Under]  → the client's entry, below the prefix
//	                              ├────→ [Skill.File]    → the file that a read asks for
//	                              ├────→ [Skill.Verify]  → its content, if it is the file in the entry
//	                              ├────→ [Directory.Add] → the content of a folder
//	                              └────→ [Skill.About]   → a line for operators
//
// Promises:
//   - Parse refuses entries that hosts must not load: paths, digests and sizes in a Skill are valid.
//   - Verify accepts a content only with the size and digest in the manifest, and a SKILL.md only
//     with the front matter of the entry. A dynamic skill has no manifest.
//   - A Skill is immutable. Nothing here calls a server or depends on the caller.
package skills

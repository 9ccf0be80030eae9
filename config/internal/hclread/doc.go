// Package hclread reads HCL blocks: it loads files, checks names against a [Schema], evaluates
// attributes and collects diagnostics. It knows how any block is read and none in particular;
// package config knows the blocks.
//
//	ReadPath   files ──▶ tokens ──▶ blocks      each file is parsed by itself
//	Check      blocks against the Schema        unknown, misplaced and duplicate names
//	Blocks     attributes ──▶ values            Set, List, Int … evaluate within bounds, convert and check
//	Report     diagnostics in order, with the sources that they quote
//
// What callers may rely on:
//
//   - A syntax error in one file hides no mistake in the others. Of the broken file itself, only
//     the blocks before the error are decoded, because the parser guesses at the rest.
//   - Everything that is wrong becomes a diagnostic; nothing panics and nothing is ignored,
//     whatever the files contain.
//   - No diagnostic contains a sensitive value, and none quotes a line that may have one.
//   - A Reader never touches the network, and it reads no file beyond fixed bounds. It is for one
//     goroutine.
//   - A file is bounded before it is parsed, and what its functions take and make while they are
//     called: see the bounds in bound.go. What a condition takes is computed before each evaluation,
//     because servers choose the facts: see [Steps]. Both count bytes and not time, so a file that is
//     accepted on one machine is accepted on all.
//
// # Sensitive values
//
// The results of env and file are sensitive, and so is whatever an expression computes from them.
// The [Schema] says for each attribute where its value goes: a plain attribute is logged and
// refuses sensitive values, an external one accepts them, a secret one is treated as sensitive even
// if it is written out. No diagnostic quotes a line of a secret or an unknown attribute, or of a
// file that does not parse.
package hclread

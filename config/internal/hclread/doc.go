// Package hclread reads any HCL block: it loads files, checks names against a [Schema], evaluates
// attributes and collects diagnostics. Package config defines the blocks.
//
//	ReadPath   files ──▶ tokens ──▶ blocks      each file is parsed by itself
//	Check      blocks against the Schema        unknown, misplaced and duplicate names
//	Decode     attributes ──▶ values            each row evaluates within bounds, converts and checks
//	Finish     diagnostics in order, with the sources that they quote
//
// Callers may rely on this:
//
//   - A syntax error in one file hides no error in other files. In the broken file itself, only the
//     blocks before the error are decoded, because the parser guesses at the rest.
//   - Every problem becomes a diagnostic. Nothing panics, and nothing is ignored.
//   - No diagnostic contains a sensitive value, and none quotes a line that may contain one.
//   - A Reader never touches the network, and reads no file beyond fixed bounds. It is for one
//     goroutine.
//   - The size of a file is checked before the file is parsed, and the sizes of values while they are
//     computed: see bound.go. No bound is a time, so all machines accept the same files.
//
// # Sensitive values
//
// The results of env and file are sensitive, and so are values computed from them. The table of a
// block has a row for each attribute. A [Plain] attribute is logged and refuses sensitive values, a
// [FromEnvironment] attribute accepts them, and a [Secret] attribute is sensitive even if it is
// written out.
//
// No diagnostic quotes a line of a secret attribute, of an unknown attribute that may be a misspelt
// secret, of an unknown block, or of a file that does not parse.
package hclread

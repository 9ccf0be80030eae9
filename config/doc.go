// Package config turns the HCL files at --config into checked values. README.md in this folder
// describes the language. This comment describes the code.
//
// [Load] reads a file or a folder and returns one checked [Config], or a list of errors with the
// source location and the remedy of each. Callers may rely on this:
//
//   - All or nothing: a Config exists only if there is no error. It needs no further checks.
//   - One run reports the errors of all files. A syntax error in one file hides no error in other
//     files.
//   - Nothing is silently ignored: an unknown name is an error, and so is a setting without effect.
//   - Teams, upstreams and rules are in the order of the files and of their lines. Folders are read
//     recursively, each in the byte order of its names.
//   - A Config never changes, so goroutines may share it.
//   - Load reads the configuration, the files that it names, and the environment. It never touches
//     the network.
//
// # How a block becomes a value
//
//	files ──▶ config/internal/hclread ──▶ blocks ──▶ tables ──▶ Config
//	          load, parse, check against     │       one file per block: its value,
//	          the tables, evaluate, mask     │       a row for each attribute
//	                                         ▼
//	                                    Diagnostics
//
// To add an attribute to a block, add a field to the block's value and a row to its table. Set the
// attribute in a fixture of testdata/valid, because a test requires that. Then go test ./config
// -update writes README.md. [Upstream] in upstream.go is the largest example.
//
// Rules that involve several blocks are in files of their own: names.go has the owners of prefixes,
// auth.go the sources of subjects, allow.go the grants of teams, and reach.go the addresses that an
// upstream may have.
//
// # Sensitive values
//
// The results of env and file are sensitive, and so are values computed from them. Each row decides
// whether an attribute accepts them:
//
//	Secret            kept as Secret, Key or a hash, and never printed
//	FromEnvironment   may be sensitive: deployments set it from outside. A printed Config contains it;
//	                  only url and command are masked, by [Upstream.Address]. The contents of files
//	                  are kept as Secret.
//	Plain             logged, so a sensitive value is an error
//
// # Conditions
//
// A when expression, see [Condition], is evaluated for each prompt and each audience that the block
// affects. It has no arithmetic, and none of its functions returns much more than its arguments. The
// facts and each match of a regular expression are bounded, because servers choose the facts.
package config

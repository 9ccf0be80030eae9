// Package config answers one question: what does the HCL below --config say? README.md, beside this
// file, describes the language; this comment is about the code.
//
// [Load] reads a file or a folder and returns one checked [Config], or a list of mistakes with the
// source location and the remedy of each. What callers may rely on:
//
//   - All or nothing: a Config exists only if there is no error, and after Load nobody checks
//     again.
//   - One run reports every mistake of every file. A syntax error in one file hides no mistake in
//     the others.
//   - Nothing is accepted and silently ignored: an unknown name is an error, and so is a known one
//     without effect.
//   - Order is kept: teams, upstreams and rules are in the order of the files and of their lines.
//     Folders are read recursively, each in the byte order of its names.
//   - A Config never changes, so goroutines may share it.
//   - Load reads the configuration, the files that it names, and the environment. It never touches
//     the network.
//
// # How a block becomes a value
//
//	files ──▶ config/internal/hclread ──▶ blocks ──▶ decode functions ──▶ Config
//	          load, parse, check against     │       one file per block: defaults,
//	          the schema, evaluate, mask     │       value, schema, decoder
//	                                         ▼
//	                                    Diagnostics
//
// To add an attribute to a block, edit the block's file (its value, its schema, its decoder), a
// fixture in testdata, and its row in README.md, which a test demands. [Upstream] in upstream.go is
// the largest example.
//
// Some blocks must know of others. That knowledge is in small types, each with the rules for it:
// names.go knows who owns which prefix, auth.go which sources make subjects, allow.go what a
// team's file may use, and reach.go which addresses an upstream may have.
//
// # Sensitive values
//
// The results of env and file are sensitive, and so is whatever is computed from them. The schema
// of each block says where the value of an attribute goes:
//
//	secret     kept as Secret, Key or a hash, and never printed
//	external   may be sensitive: deployments set it from outside. The Config prints it, except for
//	           url and command, of which only [Upstream.Address] may be shown. The contents of
//	           files are kept as Secret.
//	plain      logged, so a sensitive value is an error
//
// # Conditions
//
// A when expression, see [Condition], is evaluated for each prompt and each audience that the block
// makes a difference to. It has no arithmetic, and no function whose result is much larger than its
// arguments. One evaluation has a limit of steps; how many it takes depends only on the expression
// and on the facts that it reads.
package config

package hclread

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// foreignVariable matches how shells and the configurations of MCP clients write a variable in a
// string: ${NAME}, ${NAME:-default}, ${env:NAME}, ${input:name}; and Terraform, ${var.name}.
var foreignVariable = Lazily(`^\$\{\s*(?:env[:.]|input:|var\.)?([A-Za-z_][A-Za-z0-9_-]*)\s*(:-|\})`)

// misspeltEnv matches env(NAME), env.NAME and env["NAME"] near the start of a text.
var misspeltEnv = Lazily(`^[^\n"']{0,12}\benv(?:\(\s*|\.|\[["'])([A-Za-z_][A-Za-z0-9_]*)`)

// These summaries are HCL's own, of a text whose line ends before it, and of a name without quotes.
const (
	summaryUnclosed  = "Invalid multi-line string"
	summaryVariables = "Variables not allowed"
)

// explainSyntax returns a diagnostic of the parser with a remedy of ours where the file is written
// as other programs want it.
func explainSyntax(d *hcl.Diagnostic, content []byte) *hcl.Diagnostic {
	explained := *d
	switch {
	case d.Summary == summaryUnclosed:
		explained.Summary = "Missing quote"
		explained.Detail = `The text does not end in its line; write the missing ", or \n for a line break.`
	case d.Summary == "Extra characters after interpolation expression" && d.Subject != nil:
		begin := bytes.LastIndex(content[:d.Subject.Start.Byte], []byte("${"))
		if remedy := instead(content, begin); remedy != "" {
			explained.Summary, explained.Detail = summaryVariables, remedy
		}
	case d.Subject != nil && d.Subject.Start.Line == 1 && bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")):
		explained.Summary, explained.Context = "JSON instead of HCL", nil // its first line says enough
		explained.Detail = "A configuration is written in HCL. If this is an MCP client's configuration, promptweir " +
			"import FILE turns it into a team's file."
	}
	return &explained
}

// lineName matches the name that a line begins with.
var lineName = Lazily(`^\s*"?([A-Za-z_][A-Za-z0-9_-]*)`)

// locate adds to a syntax error, whose line is not quoted, the name of the attribute or block that
// the line begins with.
func (names attributeNames) locate(d *hcl.Diagnostic, content []byte) *hcl.Diagnostic {
	if d.Subject == nil {
		return d
	}
	begin := bytes.LastIndexByte(content[:d.Subject.Start.Byte], '\n') + 1
	match := lineName().FindSubmatch(content[begin:])
	// Another word may be part of a secret.
	if match == nil {
		return d
	}
	if _, isKnown := names[string(match[1])]; !isKnown {
		return d
	}
	located := *d
	located.Detail += fmt.Sprintf(" The line begins with %s.", match[1])
	return &located
}

// explainVariable returns the diagnostic of a variable in an expression, where there are none, with
// a remedy.
func explainVariable(d *hcl.Diagnostic, content []byte) *hcl.Diagnostic {
	// The name is only repeated from a "${…}", because without it, it may be a secret that lacks
	// its quotes.
	if d.Summary != summaryVariables || d.Subject == nil {
		return d
	}
	explained := *d
	explained.Detail = `There are no variables here. Write text in quotes, and env("NAME") for a variable of the gateway's environment.`
	before := bytes.TrimRight(content[:d.Subject.Start.Byte], " ")
	if remedy := instead(content, len(before)-len("${")); remedy != "" {
		explained.Detail = remedy
	} else if call := misspeltEnv().FindSubmatch(content[max(d.Subject.Start.Byte-len("env("), 0):]); call != nil {
		explained.Detail = fmt.Sprintf("Write env(%q), with quotes, for the variable of the gateway's environment.", call[1])
	}
	return &explained
}

// instead says what to write in place of the foreign variable at an offset; nothing if there is
// none, or the offset is negative.
func instead(content []byte, at int) string {
	if at < 0 {
		return ""
	}
	match := foreignVariable().FindSubmatch(content[at:])
	if match == nil {
		return ""
	}
	name := strings.ReplaceAll(string(match[1]), "-", "_")
	call := fmt.Sprintf("env(%q)", name)
	if string(match[2]) == ":-" {
		call = fmt.Sprintf(`env(%q, "…")`, name)
	}
	return fmt.Sprintf(`For the variable %s of the gateway's environment write "${%s}", or just %s if it is the whole string; for this text as it is, write "$${".`, name, call, call)
}

// remedies are what to do about mistakes that the parser explains without saying so, by its summary
// and a part of its detail.
var remedies = []struct{ summary, detail, remedy string }{ //nolint:gochecknoglobals // a constant table
	{"Unclosed configuration block", "", "Write the missing }."},
	{"Invalid block definition", "must not be used when defining a block", "Remove the equals sign."},
	{"Invalid block definition", "must have block content", "If it is an attribute, write an " +
		"equals sign: name = value."},
	{"Call to unknown function", "getenv", `Write env("NAME").`},
	{"Missing newline after argument", "", "Write one attribute per line; two values are compared with ==."},
}

// sentences take the place of the parser's texts that say neither what is wrong nor what to do, by its summaries.
var sentences = map[string]string{ //nolint:gochecknoglobals // a constant table
	"Argument or block definition required":    `This line begins with no attribute or block; write NAME = VALUE, or NAME "LABEL" { … }.`,
	"Invalid single-argument block definition": "A block in one line has one attribute; write each attribute in a line of its own, and the closing brace after the last.",
	"Missing attribute separator":              "An entry does not end where it should; write each in a line of its own, or a comma between two.",
	"Missing argument separator":               "A function's arguments do not end where they should; write a comma between two, and ) after the last.",
	"Missing item separator":                   "An element does not end where it should; write a comma between two, and ] after the last.",
	"Invalid expression":                       "This is no value; write text in quotes, a list in [ ], a map in { }, a number, true or false.",
	"Unterminated template string":             "The text has no end; write the missing quote.",
	"Invalid character encoding":               "The file is not UTF-8 text; save it in that encoding.",
}

// withRemedy returns a diagnostic with what to do about it, where the parser does not say.
func withRemedy(d *hcl.Diagnostic) *hcl.Diagnostic {
	if sentence := sentences[d.Summary]; sentence != "" {
		helpful := *d
		_, located, isLocated := strings.Cut(d.Detail, " The line begins with ")
		if helpful.Detail = sentence; isLocated {
			helpful.Detail += " The line begins with " + located
		}
		return &helpful
	}
	for _, r := range remedies {
		if d.Summary == r.summary && strings.Contains(d.Detail, r.detail) {
			helpful := *d
			helpful.Detail += " " + r.remedy
			return &helpful
		}
	}
	return d
}

package hclread

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// foreignVariable matches variables of shells and MCP clients in a string, ${NAME}, ${NAME:-default},
// ${env:NAME}, ${input:name}, and of Terraform, ${var.name}.
var foreignVariable = Lazily(`^\$\{\s*(?:env[:.]|input:|var\.)?([A-Za-z_][A-Za-z0-9_-]*)\s*(:-|\})`)

// ForeignReference matches notations for a variable that are plain text in HCL: $NAME, $(…), %NAME%, {{…}}, env:NAME,
// and calls of env within quotes.
var ForeignReference = Lazily(`\$[A-Z][A-Z0-9_]{2,}|\$\([^)]*\)|(?:^|\s)%[A-Za-z_]\w+%|\{\{[^}]*\}\}|\$?\benv:\w+|\benv\(["']?\w+["']?\)`)

// warnForeign warns of foreign references in an attribute. command may run a shell, and instructions may quote them.
func (c checker) warnForeign(name string, a *hclsyntax.Attribute, s Schema) {
	if s.Attribute(name).Env == plain || name == "command" || name == "instructions" {
		return
	}
	Visit(a.Expr, func(part *hclsyntax.LiteralValueExpr) {
		if part.Val.Type() == cty.String && ForeignReference().MatchString(part.Val.AsString()) {
			c.hide(part.SrcRange) // a password may look like a variable
			c.Warning(part.SrcRange, "Variable is text", "%s has a variable in the notation of another program, which is not replaced here. "+
				"Write ${env(\"NAME\")} for it, as in \"Bearer ${env(\"TOKEN\")}\".", name)
		}
	})
}

// misspeltEnv matches env(NAME), env.NAME and env["NAME"] near the start of a text.
var misspeltEnv = Lazily(`^[^\n"']{0,12}\benv(?:\(\s*|\.|\[["'])([A-Za-z_][A-Za-z0-9_]*)`)

// HCL's summaries for a text without a closing quote in its line, and for a name without quotes.
const (
	summaryUnclosed  = "Invalid multi-line string"
	summaryVariables = "Variables not allowed"
	summaryNoBrace   = "Unclosed configuration block"
)

// explainSyntax returns a parser diagnostic with its summary and detail replaced by a remedy if it recognises the
// cause: a missing quote or brace, a variable of another program, or JSON.
func explainSyntax(d *hcl.Diagnostic, content []byte) *hcl.Diagnostic {
	explained := *d
	switch {
	case isCurly(d):
		explained.Detail = `This is a curly quote; write " in its place, and in the place of all others of the file.`
	case d.Summary == summaryUnclosed:
		explained.Summary = "Missing quote"
		explained.Detail = `The text does not end in its line; write the missing ", or \n for a line break.`
	case d.Summary == summaryNoBrace:
		explained.Detail, explained.Subject = "There is no closing brace for this block. Write the missing }.", unclosedBrace(content, d.Subject)
	case d.Summary == "Extra characters after interpolation expression":
		begin := bytes.LastIndex(content[:d.Subject.Start.Byte], []byte("${"))
		if remedy := instead(content, begin); remedy != "" {
			explained.Summary, explained.Detail = summaryVariables, remedy
		}
	case d.Subject.Start.Line == 1 && bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")):
		explained.Summary, explained.Context = "JSON instead of HCL", nil // quote only the first line
		explained.Detail = "A configuration is written in HCL. If this is an MCP client's configuration, promptweir " +
			"import FILE turns it into a team's file."
	}
	return &explained
}

// isCurly reports whether a diagnostic is about a curly quote.
func isCurly(d *hcl.Diagnostic) bool { return strings.Contains(d.Detail, "Curly quotes") }

// unclosedBrace returns the first opening brace whose counterpart is indented less, and so belongs to an outer block.
// If there is no such brace, it returns otherwise.
func unclosedBrace(content []byte, otherwise *hcl.Range) *hcl.Range {
	tokens, _ := hclsyntax.LexConfig(content, otherwise.Filename, hcl.InitialPos)
	indentation := func(t hclsyntax.Token) int {
		line := content[bytes.LastIndexByte(content[:t.Range.Start.Byte], '\n')+1:]
		return len(line) - len(bytes.TrimLeft(line, " \t"))
	}
	var open hclsyntax.Tokens
	for _, t := range tokens {
		switch last := len(open) - 1; {
		case t.Type == hclsyntax.TokenOBrace:
			open = append(open, t)
		case t.Type != hclsyntax.TokenCBrace || last < 0:
		case indentation(t) < indentation(open[last]):
			return &open[last].Range
		default:
			open = open[:last]
		}
	}
	return otherwise
}

// lineName matches the name at the beginning of a line.
var lineName = Lazily(`^\s*"?([A-Za-z_][A-Za-z0-9_-]*)`)

// locate adds the name at the beginning of the line to a syntax error, because its line is not quoted.
func (names attributeNames) locate(d *hcl.Diagnostic, content []byte) *hcl.Diagnostic {
	begin := bytes.LastIndexByte(content[:d.Subject.Start.Byte], '\n') + 1
	match := lineName().FindSubmatch(content[begin:])
	if match == nil {
		return d
	}
	located := *d
	// Only names of attributes and blocks are quoted: any other word may be part of a secret.
	if _, isKnown := names[string(match[1])]; isKnown {
		located.Detail += fmt.Sprintf(" The line begins with %s.", match[1])
	}
	return &located
}

// explainVariable replaces the detail of a diagnostic about a variable by a remedy.
func explainVariable(d *hcl.Diagnostic, content []byte) *hcl.Diagnostic {
	// Quote only a name in "${…}" or after env. Any other name may be a secret that lacks its quotes.
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

// instead returns the remedy for the foreign variable at an offset, or "" if there is none. The offset may be negative.
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

// remedies complete diagnostics of HCL. Each remedy is for diagnostics that have its summary, and whose detail
// contains its detail.
var remedies = []struct{ summary, detail, remedy string }{ //nolint:gochecknoglobals // a constant table

	{"Invalid block definition", "must not be used when defining a block", "Remove the equals sign."},
	{"Invalid block definition", "must have block content", "If it is an attribute, write an equals sign: name = value."},
	{"Invalid block definition", "Either a quoted", `Write NAME "LABEL" { … }.`},
	{"Invalid character", "not used within the language", "Remove it, or write text in quotes."},
	{"Invalid character", "`", `Write text between two ".`},
	{"Call to unknown function", "getenv", `Write env("NAME").`},
	{"Attribute redefined", "", "Remove one of them."},
	{"Not enough function arguments", "", "Add it."},
	{"Too many function arguments", "", "Remove the others."},
	{"Operation failed", "number is required", "Operators take numbers; only == and != compare texts."},
	{"Invalid operand", "number is required", "Operators take numbers; only == and != compare texts."},
	{"Invalid operand", "bool is required", "!, && and || take conditions, such as prompt.title == \"…\"."},
}

// Sentences that replace the texts of several diagnostics.
const (
	sentenceIndex     = "The index has no end; write the missing ]."
	sentenceDirective = "A %{ in a text begins a directive of HCL; write %%{ for this text as it is."
)

// sentences maps summaries of HCL's diagnostics to replacements for their unhelpful details. No sentence contains a
// value of the configuration.
var sentences = map[string]string{ //nolint:gochecknoglobals // a constant table
	"Ambiguous attribute key":                         `A name with a dot needs quotes; write "A.B" = VALUE.`,
	"Argument or block definition required":           `This is neither an attribute nor a block; write NAME = VALUE, or NAME "LABEL" { … }.`,
	"Attribute name required":                         "Nothing that can be read follows the dot; write the name of an attribute.",
	"Extra characters after interpolation expression": "There is more than one value in this ${ }; write one, or $${ for this text as it is.",
	"Incorrect condition type":                        "What is before the ? is neither true nor false; write a comparison, such as A == B.",
	"Incorrect key type":                              "A name in a map must be text; write it in quotes.",
	"Inconsistent conditional result types":           "Both results of a ? : must be of one kind; write two texts, or two lists.",
	"Invalid 'for' directive":                         sentenceDirective,
	"Invalid 'for' expression":                        "There is no for; write the values out.",
	"Invalid argument name":                           "The name of an attribute has no quotes; write NAME = VALUE.",
	"Invalid attribute name":                          "Nothing follows the dot; write the name of an attribute.",
	"Invalid character encoding":                      "The file is not UTF-8 text; save it in that encoding.",
	"Invalid escape sequence":                         `A backslash begins a special character, such as \n or \"; write \\ for a backslash.`,
	"Invalid expression":                              "This is no value; write text in quotes, a list in [ ], a map in { }, a number, true or false.",
	"Invalid legacy index syntax":                     "An index is written in brackets; write LIST[0][1].",
	"Invalid number literal":                          "This is not a number; write digits, or text in quotes.",
	"Invalid single-argument block definition":        "A block in one line has one attribute; write each attribute in a line of its own, and the closing brace after the last.",
	"Invalid string literal":                          "A label is plain text; write it in quotes, with $${ and %%{ for the texts ${ and %{.",
	"Invalid template control keyword":                sentenceDirective,
	"Invalid template directive":                      sentenceDirective,
	"Invalid template interpolation value":            "A ${ } in a text takes text, a number, true or false; write the elements of a list one by one.",
	"Missing argument separator":                      "A function's arguments do not end where they should; write a comma between two, and ) after the last.",
	"Missing attribute separator":                     "An entry does not end where it should; write each in a line of its own, or a comma between two.",
	"Missing attribute value":                         "This entry of a map has no value; write NAME = VALUE.",
	"Missing close bracket on index":                  sentenceIndex,
	"Missing close bracket on splat index":            sentenceIndex,
	"Missing expression":                              "The file ends where a value should begin; write it.",
	"Missing false expression in conditional":         "A ? needs two results; write CONDITION ? A : B.",
	"Missing function name":                           "A function has a name without ::; remove what is before it.",
	"Missing item separator":                          "An element does not end where it should; write a comma between two, and ] after the last.",
	"Missing key/value separator":                     `This entry of a map has no value; write NAME = VALUE, and a name with dots or blanks in quotes.`,
	"Missing newline after argument":                  "The line goes on after the value; write text in quotes and each attribute in a line of its own. In a condition, two values are compared with ==, contains(LIST, VALUE) searches a list, ! is not, and two comparisons are joined by && or ||.",
	"Missing newline after block definition":          "The line goes on after the block; write what follows in a line of its own.",
	"Missing open parenthesis":                        "A function is called with parentheses; write NAME(…).",
	"Null condition":                                  "What is before the ? is null; write a comparison, such as A == B.",
	"Null value as key":                               "A name in a map must be text; write it in quotes.",
	"Unbalanced parentheses":                          "The parenthesis has no end; write the missing ).",
	"Unclosed configuration body":                     "The file ends within a block; write the missing }.",
	"Unclosed index brackets":                         sentenceIndex,
	"Unclosed template interpolation sequence":        "The ${ has no end; write the missing }, or $${ for this text as it is.",
	"Unexpected end of template":                      sentenceDirective,
	"Unsupported operator":                            "This is not an operator; write && for and, || for or, and == to compare.",
	"Unterminated function call":                      "The function's arguments have no end; write the missing ).",
	"Unterminated object constructor expression":      "The map has no end; write the missing }.",
	"Unterminated string literal":                     "The text has no end; write the missing quote.",
	"Unterminated template string":                    "The text has no end; write the missing quote, or after <<EOT a line with EOT alone.",
	"Unterminated tuple constructor expression":       "The list has no end; write the missing ].",
	"Variable name required":                          "This is no name; write one that begins with a letter.",
}

// withRemedy adds a remedy to a diagnostic that lacks one.
func withRemedy(d *hcl.Diagnostic) *hcl.Diagnostic {
	helpful := *d
	if sentence := sentences[d.Summary]; sentence != "" {
		helpful.Detail = sentence
		return &helpful
	}
	for _, r := range remedies {
		if d.Summary == r.summary && strings.Contains(d.Detail, r.detail) {
			helpful.Detail += " " + r.remedy
			return &helpful
		}
	}
	return d
}

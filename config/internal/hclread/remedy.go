package hclread

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// remedies are what to do about mistakes that the parser explains without saying so, by its summary and a part of its detail.
var remedies = []struct{ summary, detail, remedy string }{ //nolint:gochecknoglobals // a constant table
	{"Unclosed configuration block", "", "Write the missing }."},
	{"Invalid block definition", "must not be used when defining a block", "Remove the equals sign."},
	{"Invalid block definition", "must have block content", "If it is an attribute, write an equals sign: name = value."},
	{"Missing newline after argument", "", "Write one attribute per line; two values are compared with ==."},
}

// withRemedy returns a diagnostic with what to do about it, where the parser does not say.
func withRemedy(d *hcl.Diagnostic) *hcl.Diagnostic {
	for _, r := range remedies {
		if d.Summary == r.summary && strings.Contains(d.Detail, r.detail) {
			helpful := *d
			helpful.Detail += " " + r.remedy
			return &helpful
		}
	}
	return d
}

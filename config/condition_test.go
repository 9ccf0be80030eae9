package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// condition returns the Condition of a when expression.
func condition(t testing.TB, when string) *Condition {
	t.Helper()
	dir := t.TempDir() + "/x.hcl"
	writeFile(t, dir, "hide \"x\" {\n  prompts = [\"*\"]\n  when = "+when+"\n}\n")
	cfg, diags := Load(dir, options())
	if err := diags.Err(); err != nil {
		t.Fatalf("when = %s: %v", when, err)
	}
	return cfg.Hides[0].When
}

const invoice = `{"name":"invoice","title":"Invoice","arguments":[{"name":"id","required":true},{"name":"lang"}],"_meta":{"tags":["money"],"level":3}}`

func TestHolds_Evaluates(t *testing.T) {
	known := NewPromptFacts("billing.invoice", "billing", "payments", []byte(invoice))
	alice := NewPrincipalFacts("user:alice", []string{"group:b", "group:a"}, `{"tier":"gold","n":1e30,"org":{"unit":7}}`)
	for _, test := range []struct {
		when, want, reads string
	}{
		{`prompt.name == "billing.invoice" && prompt.upstream == "billing" && prompt.team == "payments"`, "true", ""},
		{`length(prompt.arguments) <= 1`, "false", ""},
		{`prompt.title == "Invoice" && prompt.description == ""`, "true", ""},
		{`contains(prompt.arguments[*].required, true)`, "true", ""},
		{`contains(prompt.arguments[*].name, "lang")`, "true", ""},
		{`contains(prompt.meta.tags, "money") && prompt.meta.level >= 3`, "true", ""},
		{`prompt.meta.owner == "x"`, "unsupported attribute in column 21", ""},
		{`try(prompt.meta.owner, "nobody") == "nobody"`, "true", ""},
		{`can(prompt.meta.owner)`, "false", ""},
		{`prompt.arguments[7].required`, "invalid index in column 26", ""},
		{`prompt.title`, "the result is neither true nor false", ""},
		{`principal.subject == "user:alice"`, "true", "subject"},
		{`contains(principal.groups, "group:a")`, "true", "groups"},
		{`principal.groups[0] == "group:a"`, "true", "groups"},
		{`principal.claims.tier == "gold"`, "true", "claims.tier"},
		{`principal.claims["tier"] == "gold" && principal.claims.org.unit == 7`, "true", "claims.org claims.tier"},
		{`lookup(principal.claims, "tier", "") == "gold"`, "true", "claims"},
		{`lookup(principal.claims, "absent", "") == ""`, "true", "claims"},
		{`principal.claims.absent == ""`, "unsupported attribute in column 26", "claims.absent"},
		{`principal["subject"] == prompt.title`, "false", "subject"},
		{`length(keys(principal)) == 3`, "true", "claims groups subject"},
		{`regex("^[a-z]+", prompt.name) == "billing"`, "true", ""},
		{`regex("^x", prompt.name) == ""`, "error in function call in column 10", ""},
		{`regex("^(\\w+)\\.(\\w+)$", prompt.name)[1] == "invoice"`, "true", ""},
		{`regex("(?P<team>\\w+)\\.", prompt.name).team == "billing"`, "true", ""},
		{`regex("(x)|(b)", prompt.name)[0] == null`, "true", ""},
		{`regex(lower(prompt.title), prompt.name) == "invoice"`, "true", ""},
		{`try(regex("^x", prompt.name), "none") == "none" && can(regex("^i", prompt.arguments[0].name))`, "true", ""},
		{`startswith(prompt.name, "billing.") && endswith(prompt.name, ".invoice")`, "true", ""},
		{`startswith(prompt.name, "invoice") || endswith(prompt.name, "billing")`, "false", ""},
		{`startswith(principal.subject, "user:")`, "true", "subject"},
		{`prompt.meta.level < 5 && strlen(prompt.name) > 5`, "true", ""},
		{`prompt.title < 5`, "invalid operand in column 10", ""},
		{`true`, "true", ""},
		{`"false"`, "false", ""},
	} {
		c := condition(t, test.when)
		holds, err := c.Holds(known, alice)
		got := strconv.FormatBool(holds)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.when, got, test.want)
		}
		if reads := strings.Join(c.PrincipalFields, " "); reads != test.reads || c.ReadsPrompt != strings.Contains(test.when, "prompt.") {
			t.Errorf("%s reads %q of the principal, want %q; of the prompt: %v", test.when, reads, test.reads, c.ReadsPrompt)
		}
	}
}

func TestHolds_IsUnknownWithoutADefinition(t *testing.T) {
	unknown := NewPromptFacts("billing.invoice", "billing", "payments", nil)
	nobody := NewPrincipalFacts("user:bob", nil, "")
	for when, want := range map[string]error{
		`prompt.title == "x"`:                                       ErrUnknown,
		`prompt.meta.level > 3`:                                     ErrUnknown,
		`prompt.name == "billing.invoice"`:                          nil,
		`prompt.name == "x" && length(prompt.arguments) == 0`:       nil,
		`length(principal.groups) == 0 && !can(principal.claims.x)`: nil,
	} {
		if _, err := condition(t, when).Holds(unknown, nobody); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
}

func TestReadsDefinition_IsFalseOfWhatTheConfigurationSays(t *testing.T) {
	for when, want := range map[string]bool{
		`prompt.name == "x" && prompt["upstream"] == "u" && prompt.team == "t"`: false,
		`principal.subject == "user:x"`:                                         false,
		`prompt.title == "x"`:                                                   true,
		`prompt.description == "x"`:                                             true,
		`length(prompt.arguments) == 0`:                                         true,
		`prompt["meta"].level > 3`:                                              true,
		`prompt.title == "x" && prompt.name == "x"`:                             true,
		`length(keys(prompt)) == 7`:                                             true,
		`prompt[principal.subject] == "x"`:                                      true,
	} {
		if got := condition(t, when).ReadsDefinition; got != want {
			t.Errorf("%s reads the definition: %v, want %v", when, got, want)
		}
	}
}

func TestHolds_BoundsAMatch(t *testing.T) {
	for when, most := range map[string]int{
		`regex(".{0,999}b", prompt.description) != ""`: 500,
		`regex("xb", prompt.description) != ""`:        maxFacts - 100,
	} {
		for length, want := range map[int]string{most: "error in function call in column 10", most + 100: "too much to match in column 10"} {
			facts := NewPromptFacts("a", "b", "c", fmt.Appendf(nil, `{"description":%q}`, strings.Repeat("x", length)))
			if length > most && most > 10_000 {
				want = errTooMuch.Error()
			}
			if _, err := condition(t, when).Holds(facts, NewPrincipalFacts("", nil, "")); err == nil || err.Error() != want {
				t.Errorf("%s of %d bytes: %v, want %s", when, length, err, want)
			}
		}
	}
}

func TestHolds_BoundsAllMatchesTogether(t *testing.T) {
	facts := NewPromptFacts("a", "b", "c", fmt.Appendf(nil, `{"description":%q}`, strings.Repeat("x", 400)))
	const match = `can(regex(".{0,999}b", prompt.description))`
	for when, want := range map[string]error{match: nil, match + " || " + match: errTooMuchToMatch} {
		if _, err := condition(t, when).Holds(facts, NewPrincipalFacts("", nil, "")); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
}

// A server chooses how long a text is: it must not decide by that whether hide hides.
func TestHolds_FailsIfTryAndCanHideTheErrorOfAMatch(t *testing.T) {
	text := strings.Repeat("x", maxFacts-100)
	facts := NewPromptFacts("a", "b", "c", fmt.Appendf(nil, `{"description":%q}`, "secret"+text))
	for _, when := range []string{
		`can(regex("(?i)secret|password|credential", prompt.description))`,
		`!can(regex("(?i)secret|password|credential", prompt.description))`,
		`try(regex("(?i)secret|password|credential", prompt.description), "none") == "none"`,
	} {
		if holds, err := condition(t, when).Holds(facts, NewPrincipalFacts("", nil, "")); err == nil || err.Error() != "too much to match" {
			t.Errorf("%s: %t, %v", when, holds, err)
		}
	}
}

// A server may choose the pattern, too.
func TestHolds_CompilesNoHugePattern(t *testing.T) {
	c := condition(t, `regex(prompt.description, "x") == "x"`)
	facts := NewPromptFacts("a", "b", "c", fmt.Appendf(nil, `{"description":"(?:%s){1000}"}`, strings.Repeat("a", 500)))
	begun := time.Now()
	for range 500 {
		if _, err := c.Holds(facts, NewPrincipalFacts("", nil, "")); err == nil {
			t.Fatal("the pattern is compiled")
		}
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("500 evaluations took %v", took)
	}
}

// Each try doubles what it contains.
func TestLoad_RefusesTriesAroundEachOther(t *testing.T) {
	path := t.TempDir() + "/x.hcl"
	writeFile(t, path, `hide "x" {
  prompts = ["*"]
  when    = `+strings.Repeat("try(", 24)+`lower("x")`+strings.Repeat(")", 24)+` == "x"
}
`)
	_, diags := Load(path, options())
	if err := diags.Err(); err == nil || !strings.Contains(err.Error(), "Too many tries") {
		t.Errorf("error %v", err)
	}
}

func TestLoad_BoundsThePatternsOfAllConditionsOfAFile(t *testing.T) {
	for patterns, isRight := range map[int]bool{40: true, 300: false} {
		var text strings.Builder
		for i := range patterns {
			fmt.Fprintf(&text, "hide \"x\" {\n  prompts = [\"*\"]\n  when    = can(regex(\"(ab){900}%d\", prompt.name))\n}\n", i)
		}
		_, diags := Load(write(t, "gateway.hcl", "gateway {}\n", "a.hcl", teamFile("a", "one", text.String())), options())
		if err := diags.Err(); (err == nil) != isRight || err != nil && !strings.Contains(err.Error(), "of this file") {
			t.Errorf("%d patterns: %v", patterns, err)
		}
	}
}

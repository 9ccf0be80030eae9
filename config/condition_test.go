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
		{`startswith(prompt.name, "billing.") && endswith(prompt.name, ".invoice")`, "true", ""},
		{`startswith(prompt.name, "invoice") || endswith(prompt.name, "billing")`, "false", ""},
		{`startswith(principal.subject, "user:")`, "true", "subject"},
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
		if reads := strings.Join(c.PrincipalFields(), " "); reads != test.reads || c.ReadsPrompt() != strings.Contains(test.when, "prompt.") {
			t.Errorf("%s reads %q of the principal, want %q; of the prompt: %v", test.when, reads, test.reads, c.ReadsPrompt())
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
		if got := condition(t, when).ReadsDefinition(); got != want {
			t.Errorf("%s reads the definition: %v, want %v", when, got, want)
		}
	}
}

// The bound is generous: an expression that is not bounded by its length takes hours.
func TestHolds_EndsSoonForTheWorstExpressions(t *testing.T) {
	var arguments []string
	for i := range 256 {
		arguments = append(arguments, fmt.Sprintf(`{"name":"argument%d"}`, i))
	}
	facts := NewPromptFacts("a", "b", "c", []byte(`{"name":"a","description":"`+strings.Repeat("x", 50_000)+`","arguments":[`+strings.Join(arguments, ",")+`]}`))
	longest := `"` + strings.Repeat("${prompt.description}", 16) + `"`
	for _, when := range []string{
		`contains(prompt.arguments[*].name, "none")` + strings.Repeat(` || contains(prompt.arguments[*].name, "x")`, 20),
		`strlen(` + longest + `) == 0`,
		`can(regex("(x+x+)+y", prompt.description))`,
	} {
		begun := time.Now()
		_, err := condition(t, when).Holds(facts, NewPrincipalFacts("", nil, ""))
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("%.80s: %v, %v", when, took, err)
		} else {
			t.Logf("%.80s: %v, %v", when, took, err)
		}
	}
}

func TestHolds_EndsAtItsBudgetOfSteps(t *testing.T) {
	nobody := NewPrincipalFacts("", nil, "")
	for _, test := range []struct {
		when string
		// fits and exceeds are lengths of the description.
		fits, exceeds int
	}{
		{`can(regex(".{0,999}b.{0,999}b.{0,999}b.{0,999}c", prompt.description))`, 100, 1_000},
		{`try(regex(".{0,999}b.{0,999}b.{0,999}b.{0,999}c", prompt.description), "x") == "x"`, 50, 1_000},
		{`!can(regex(join_pattern(prompt.title), prompt.description))`, 50, 40_000},
		{`lower("` + strings.Repeat("${prompt.description}", 6) + `") == "x"`, 1_000, 60_000},
	} {
		when := strings.Replace(test.when, "join_pattern(prompt.title)", `"${prompt.title}.{0,99}c"`, 1)
		c := condition(t, when)
		for length, want := range map[int]bool{test.fits: true, test.exceeds: false} {
			definition := fmt.Sprintf(`{"title":"x","description":%q,"arguments":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"},{"name":"e"},{"name":"f"}]}`,
				strings.Repeat("x", length))
			begun := time.Now()
			_, err := c.Holds(NewPromptFacts("a", "b", "c", []byte(definition)), nobody)
			if (err == nil) != want || err != nil && !strings.HasPrefix(err.Error(), "too much to evaluate in column ") {
				t.Errorf("%s of %d bytes: %v, evaluated: want %t", when, length, err, want)
			}
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("%s of %d bytes took %v", when, length, took)
			}
		}
	}
}

func TestLoad_BoundsThePatternsOfAllConditionsOfAFile(t *testing.T) {
	conditions := func(patterns int) string {
		var text strings.Builder
		for i := range patterns {
			fmt.Fprintf(&text, "hide \"x\" {\n  prompts = [\"*\"]\n"+
				"  when = can(regex(\"(ab){900}%d\", prompt.name)) || can(regex(\"(ab){900}%[1]d\", \"\"))\n}\n", i)
		}
		return text.String()
	}
	for patterns, isRight := range map[int]bool{40: true, 300: false} {
		_, diags := Load(write(t, "gateway.hcl", "gateway {}\n", "a.hcl", teamFile("a", "one", conditions(patterns))), options())
		if err := diags.Err(); (err == nil) != isRight || err != nil && !strings.Contains(err.Error(), "of this file") {
			t.Errorf("%d patterns: %v", patterns, err)
		}
	}
}

func TestHolds_ReadsGroupsOfACompiledPattern(t *testing.T) {
	for _, when := range []string{
		`regex("^(\\w+)\\.(\\w+)$", prompt.name)[1] == "invoice"`,
		`regex("(?P<team>\\w+)\\.", prompt.name).team == "billing"`,
		`regex("(x)|(b)", prompt.name)[0] == null`,
		`regex(prompt.title, prompt.name) == "billing"`,
		`try(regex("^x", prompt.name), "none") == "none"`,
		`can(regex("^i", prompt.arguments[0].name))`,
	} {
		facts := NewPromptFacts("billing.invoice", "billing", "payments", []byte(`{"title":"^[a-z]+","arguments":[{"name":"id"}]}`))
		if holds, err := condition(t, when).Holds(facts, NewPrincipalFacts("", nil, "")); !holds || err != nil {
			t.Errorf("%s: %t, %v", when, holds, err)
		}
	}
}

func BenchmarkHolds(b *testing.B) {
	facts := NewPromptFacts("billing.invoice", "billing", "payments", []byte(invoice))
	for _, when := range []string{
		`prompt.name == "billing.invoice" && prompt.upstream == "billing"`,
		`can(regex("^bill[a-z]+\\.", prompt.name)) && contains(prompt.arguments[*].name, "id")`,
	} {
		c := condition(b, when)
		b.Run(when[:12], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if holds, err := c.Holds(facts, PrincipalFacts{}); !holds || err != nil {
					b.Fatal(holds, err)
				}
			}
		})
	}
}

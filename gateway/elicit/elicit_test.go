package elicit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/elicit"
)

const form = `{"message":"Who?","requestedSchema":{"type":"object","required":["age","name"],"properties":{
	"name":{"type":"string","title":"Your name"},"age":{"type":"integer"},"rate":{"type":"number","default":1.5},
	"sure":{"type":"boolean"},"kind":{"type":"string","enum":["a","b"],"enumNames":["Apple"]},
	"one":{"type":"string","oneOf":[{"const":"x","title":"An X"}]},"many":{"type":"array","items":{"anyOf":[{"const":"p"},{"const":"q"}]}}}}}`

func TestField_ReadsAnswersByItsType(t *testing.T) {
	r, err := elicit.Read(jsontext.Value(form))
	if err != nil || r.Message != "Who?" || r.IsURL || len(r.Fields) != 7 {
		t.Fatalf("%+v, %v", r, err)
	}
	fields := map[string]*elicit.Field{}
	for i := range r.Fields {
		fields[r.Fields[i].Name] = &r.Fields[i]
	}
	for _, test := range []struct{ field, answers, want string }{
		{"name", "Ann", `"Ann"`},
		{"name", "", `""`}, // an empty text is a text
		{"age", "41", "41"},
		{"age", "", "problem"},
		{"age", "4.5", "problem"},
		{"age", "0x10", "problem"},
		{"rate", "", "1.5"},
		{"rate", "2e3", "2e3"},
		{"rate", "NaN", "problem"},
		{"sure", "", ""},
		{"sure", "Yes", "true"},
		{"sure", "n", "false"},
		{"sure", "perhaps", "problem"},
		{"kind", "apple", `"a"`},
		{"kind", "b", `"b"`},
		{"kind", "c", "problem"},
		{"one", "An X", `"x"`},
		{"many", "p|q", `["p","q"]`},
		{"many", "p|z", "problem"},
		{"many", "", ""},
	} {
		value, problem := fields[test.field].Value(strings.Split(test.answers, "|")...)
		got := string(value)
		if problem != "" {
			got = "problem"
		}
		if got != test.want {
			t.Errorf("%s %q: %s (%s), want %s", test.field, test.answers, got, problem, test.want)
		}
	}
	if got := fields["name"].Label() + fields["age"].Label(); got != "Your nameage" {
		t.Errorf("labels %s", got)
	}
	if value, problem := fields["sure"].Value(); value != nil || problem != "" {
		t.Errorf("no answer: %s, %s", value, problem)
	}
}

// What a schema demands of an answer beside its type, people are told before and after they answer.
func TestField_HoldsAnswersToItsLimits(t *testing.T) {
	for _, test := range []struct{ schema, limits, bad, problem, good string }{
		{`"type":"string","minLength":2,"maxLength":3`, "2 to 3 characters", "ä", "Write 2 to 3 characters.", "äöü"},
		{`"type":"string","maxLength":3`, "at most 3 characters", "four", "Write at most 3 characters.", "abc"},
		{`"type":"string","minLength":1`, "at least 1 character", "", "Write at least 1 character.", "a"},
		{`"type":"string","format":"email","maxLength":20`, "an e-mail address such as ann@example.com, at most 20 characters", "Ann <ann@example.com>", "Write an e-mail address such as ann@example.com.", "ann@example.com"},
		{`"type":"string","format":"uri"`, "a whole address such as https://example.com/", "example.com", "Write a whole address such as https://example.com/.", "https://example.com/"},
		{`"type":"string","format":"date"`, "a date such as 2026-11-22", "22.11.2026", "Write a date such as 2026-11-22.", "2026-02-28"},
		{`"type":"string","format":"date-time"`, "a date and time such as 2026-11-22T15:04:05Z", "2026-11-22", "Write a date and time such as 2026-11-22T15:04:05Z.", "2026-11-22T15:04:05+01:00"},
		{`"type":"string","format":"made-up"`, "", "", "", "anything"},
		{`"type":"integer","minimum":1,"maximum":10`, "1 to 10", "11", "Write a number: 1 to 10.", "10"},
		{`"type":"number","minimum":-0.5`, "at least -0.5", "-1", "Write a number: at least -0.5.", "0"},
		{`"type":"array","items":{"enum":["x","y","z"]},"minItems":2,"maxItems":2`, "2 choices", "x", "Choose 2 choices.", "x|y"},
		{`"type":"string","enum":["x","y"],"minLength":5`, "", "z", `"z" is none of the choices.`, "x"},
		{`"type":"string","oneOf":[{"const":"a","title":"b"},{"const":"b","title":"a"}]`, "", "c", `"c" is none of the choices.`, "b"},
		{`"type":"boolean","default":null`, "", "perhaps", "Write yes or no.", "true"},
	} {
		r, err := elicit.Read(jsontext.Value(`{"requestedSchema":{"required":["a"],"properties":{"a":{` + test.schema + `}}}}`))
		if err != nil {
			t.Errorf("%s: %v", test.schema, err)
			continue
		}
		f := &r.Fields[0]
		if got := f.Limits(); got != test.limits {
			t.Errorf("%s: limits %q, want %q", test.schema, got, test.limits)
		}
		if _, problem := f.Value(strings.Split(test.bad, "|")...); problem != test.problem {
			t.Errorf("%s: %q is answered with %q, want %q", test.schema, test.bad, problem, test.problem)
		}
		if value, problem := f.Value(strings.Split(test.good, "|")...); problem != "" || !strings.Contains(string(value), test.good[:1]) {
			t.Errorf("%s: %q: %s, %q", test.schema, test.good, value, problem)
		}
		if value, _ := f.Value("b"); strings.Contains(test.schema, "oneOf") && string(value) != `"b"` {
			t.Errorf("the value b is taken for %s, which is called b", value)
		}
	}
}

func TestRead_TakesWhatServersSend(t *testing.T) {
	if r, err := elicit.Read(jsontext.Value(`{"mode":"url","message":"Go","url":"https://example.com/"}`)); err != nil || !r.IsURL || r.URL != "https://example.com/" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, params := range []string{``, `[]`, `{}`, `{"requestedSchema":7}`, `{"requestedSchema":{"required":{},"properties":[]}}`} {
		if r, err := elicit.Read(jsontext.Value(params)); err != nil || len(r.Fields) > 0 {
			t.Errorf("%s: %+v, %v", params, r, err)
		}
	}
	var many strings.Builder
	for i := range 201 {
		fmt.Fprintf(&many, `,"f%d":{"type":"string"}`, i)
	}
	var choices strings.Builder
	for i := range 6 {
		fmt.Fprintf(&choices, `,"f%d":{"type":"string","enum":["x"%s]}`, i, strings.Repeat(`,"x"`, 999))
	}
	for _, properties := range []string{`"a":7`, `"a":{"enum":7}`, many.String()[1:], choices.String()[1:]} {
		if r, err := elicit.Read(jsontext.Value(`{"requestedSchema":{"properties":{` + properties + `}}}`)); err == nil {
			t.Errorf("%.50s: %+v", properties, r)
		}
	}
	if got := string(elicit.Reply(elicit.Decline, nil)); got != `{"action":"decline"}` {
		t.Errorf("reply %s", got)
	}
}

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
	for _, properties := range []string{`"a":7`, `"a":{"enum":7}`, many.String()[1:]} {
		if r, err := elicit.Read(jsontext.Value(`{"requestedSchema":{"properties":{` + properties + `}}}`)); err == nil {
			t.Errorf("%.50s: %+v", properties, r)
		}
	}
	if got := string(elicit.Reply(elicit.Decline, nil)); got != `{"action":"decline"}` {
		t.Errorf("reply %s", got)
	}
}

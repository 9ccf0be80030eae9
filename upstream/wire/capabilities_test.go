package wire_test

import (
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestCapabilities_KeepWhatARevisionKnows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ declared, revision, want string }{
		{`{}`, wire.Rev20251125, `{}`},
		{`{"x":{},"elicitation":true,"sampling":null}`, wire.Rev20251125, `{}`},
		{`{"sampling":{"tools":{},"x":{}},"roots":{"listChanged":true},"elicitation":{}}`, wire.Rev20251125, `{"elicitation":{},"sampling":{"tools":{}},"roots":{}}`},
		{`{"elicitation":{"url":{},"form":{}}}`, wire.Rev20251125, `{"elicitation":{"form":{},"url":{}}}`},
		{`{"elicitation":{"url":{},"form":{}}}`, wire.Rev20250618, `{"elicitation":{}}`},
		{`{"elicitation":{"url":{}}}`, wire.Rev20250618, `{}`},
		{`{"elicitation":{},"sampling":{"context":{}}}`, wire.Rev20250326, `{"sampling":{}}`},
		{`{"roots":{}}`, wire.Rev20241105, `{"roots":{}}`},
	} {
		declared, err := wire.ParseObject([]byte(test.declared))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(wire.ReadCapabilities(declared).In(test.revision).Object().JSON()); got != test.want {
			t.Errorf("%s in %s is %s, want %s", test.declared, test.revision, got, test.want)
		}
	}
}

func TestNeededCapability_FollowsMethodAndParams(t *testing.T) {
	t.Parallel()
	all := wire.Elicitation | wire.ElicitationForm | wire.ElicitationURL | wire.Sampling | wire.SamplingTools | wire.Roots
	for _, test := range []struct {
		method, params string
		declared       wire.Capabilities
		want           bool
	}{
		{wire.Elicit, `{}`, wire.Elicitation, true},
		{wire.Elicit, `{"mode":"form"}`, wire.Elicitation | wire.ElicitationForm, true},
		{wire.Elicit, `{"mode":"form"}`, wire.Elicitation | wire.ElicitationURL, false},
		{wire.Elicit, `{"mode":"url"}`, wire.Elicitation, false},
		{wire.Elicit, `{"mode":"url"}`, wire.Elicitation | wire.ElicitationURL, true},
		{wire.CreateMessage, `{}`, wire.Sampling, true},
		{wire.CreateMessage, `{"tools":[]}`, wire.Sampling, false},
		{wire.CreateMessage, `{"toolChoice":{}}`, wire.Sampling, false},
		{wire.CreateMessage, `{"tools":[]}`, all, true},
		{wire.RootsList, `{}`, all &^ wire.Roots, false},
	} {
		params, err := wire.ParseObject([]byte(test.params))
		if err != nil {
			t.Fatal(err)
		}
		if got := test.declared.Has(wire.NeededCapability(test.method, params)); got != test.want {
			t.Errorf("%s %s with capabilities %b: %v, want %v", test.method, test.params, test.declared, got, test.want)
		}
	}
	for _, method := range []string{wire.Ping, wire.PromptsList, ""} {
		upstreamtest.Equal(t, 0, wire.NeededCapability(method, nil), "NeededCapability(%q), which is no server request", method)
	}
}

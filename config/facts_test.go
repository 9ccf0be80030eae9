package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHolds_FailsForUnreadableFacts(t *testing.T) {
	for _, meta := range []string{`{"n":1e999999999}`, `{"n":[1E-999999999]}`, `{"n":"` + strings.Repeat("x", maxFacts) + `"}`, `{"n":[` + strings.Repeat("1,", maxElements) + `1]}`} {
		facts := NewPromptFacts("a", "b", "c", []byte(`{"name":"a","_meta":`+meta+`}`))
		if holds, err := condition(t, `"${prompt.meta.n}" == "" || true`).Holds(facts, NewPrincipalFacts("", nil, "")); err == nil {
			t.Errorf("%.40s: %v without an error", meta, holds)
		}
	}
	who := NewPrincipalFacts("user:x", nil, `{"n":1e999999999}`)
	if _, err := condition(t, `principal.subject == "user:x"`).Holds(PromptFacts{}, who); err == nil {
		t.Error("claims that cannot be read let a condition hold")
	}
	if holds, err := condition(t, `true`).Holds(PromptFacts{}, who); !holds || err != nil {
		t.Errorf("a condition that reads neither: %v, %v", holds, err)
	}
}

func TestValue_TellsPrincipalsApart(t *testing.T) {
	a := NewPrincipalFacts("user:a", []string{"group:y", "group:x", "group:x"}, `{"tier":"gold","when":1}`)
	b := NewPrincipalFacts("user:b", []string{"group:x", "group:y"}, `{"when":2,"tier":"gold"}`)
	values := func(f PrincipalFacts) (all []string) {
		for _, read := range []string{"subject", "groups", "claims.tier", "claims.when", "claims.none", "claims"} {
			all = append(all, f.Value(read))
		}
		return all
	}
	want := []string{`"user:a"`, `["group:x","group:y"]`, `"gold"`, `1`, `absent`, `{"tier":"gold","when":1}`}
	if diff := cmp.Diff(want, values(a)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = []string{`"user:b"`, `["group:x","group:y"]`, `"gold"`, `2`, `absent`, `{"tier":"gold","when":2}`}
	if diff := cmp.Diff(want, values(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

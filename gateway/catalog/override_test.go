package catalog_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func values(pairs ...string) (list []config.ArgumentOverride) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, config.ArgumentOverride{Name: pairs[i], Value: jsontext.Value(pairs[i+1])})
	}
	return list
}

func TestPromptOverride_ChangesOnlyWhatItNames(t *testing.T) {
	const definition = `{"x":1e2, "name":"p","arguments":[ {"name":"a","required":true,"n":1.0},{"name":"b"},{"required":true,"name":"c","schema":{"type":"integer"}}],"title":"T","_meta":{"k":[1, 2]}}`
	title, nothing := "New \"T\"", ""
	for _, test := range []struct {
		what     string
		override config.Override
		want     string
		fixed    []config.ArgumentOverride
	}{
		{"nothing", config.Override{}, definition, nil},
		{"a title", config.Override{Title: &title}, `{"x":1e2,"name":"p","arguments":[ {"name":"a","required":true,"n":1.0},{"name":"b"},{"required":true,"name":"c","schema":{"type":"integer"}}],"title":"New \"T\"","_meta":{"k":[1, 2]}}`, nil},
		{"a description that was not there", config.Override{Description: &nothing}, `{"x":1e2,"name":"p","arguments":[ {"name":"a","required":true,"n":1.0},{"name":"b"},{"required":true,"name":"c","schema":{"type":"integer"}}],"title":"T","_meta":{"k":[1, 2]},"description":""}`, nil},
		{
			"fixed",
			config.Override{Fixed: values("b", `7`, "c", `7`)},
			`{"x":1e2,"name":"p","arguments":[{"name":"a","required":true,"n":1.0}],"title":"T","_meta":{"k":[1, 2]}}`, values("b", `"7"`, "c", `7`),
		},
		{
			"one of each",
			config.Override{Fixed: values("b", `7`), Defaults: values("a", `"x"`)},
			`{"x":1e2,"name":"p","arguments":[{"name":"a","required":false,"n":1.0},{"required":true,"name":"c","schema":{"type":"integer"}}],"title":"T","_meta":{"k":[1, 2]}}`, values("b", `"7"`),
		},
		{
			"defaults",
			config.Override{Defaults: values("a", `"x"`, "b", `"y"`)},
			`{"x":1e2,"name":"p","arguments":[{"name":"a","required":false,"n":1.0},{"name":"b"},{"required":true,"name":"c","schema":{"type":"integer"}}],"title":"T","_meta":{"k":[1, 2]}}`, nil,
		},
	} {
		p := parse(t, definition)
		got, err := p.Override(t.Context(), &test.override)
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		upstreamtest.Equal(t, compact(t, test.want), compact(t, string(got.Definition)), "%s", test.what)
		if got.Overrides == nil {
			got.Overrides = &catalog.ArgumentOverrides{}
		}
		upstreamtest.Equal(t, test.fixed, got.Overrides.Fixed, "%s list", test.what)
	}
	p := parse(t, definition)
	for what, overrides := range map[string]config.Override{
		"an argument that is not there":   {Fixed: values("z", `"1"`)},
		"a default that is not there":     {Defaults: values("z", `"1"`)},
		"an object where a string is due": {Fixed: values("a", `{}`)},
	} {
		if _, err := p.Override(t.Context(), &overrides); err == nil {
			t.Errorf("%s fits", what)
		}
	}
}

// compact keeps every token as it is spelled.
func compact(t *testing.T, text string) string {
	t.Helper()
	value := jsontext.Value(text)
	if err := value.Compact(jsontext.PreserveRawStrings(true)); err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func TestOverride_RenamesThePrompt(t *testing.T) {
	renamed := func(p *catalog.Prompt, name string, fixed ...config.ArgumentOverride) *catalog.Prompt {
		t.Helper()
		overridden, err := p.Override(t.Context(), &config.Override{Name: name, Fixed: fixed})
		if err != nil {
			t.Fatal(err)
		}
		return &overridden
	}
	a := upstream(t, "a/a", "x", "y")
	b := upstream(t, "b/b", "x")
	a.Prompts[0] = renamed(a.Prompts[0], "short")
	b.Prompts[0] = renamed(b.Prompts[0], "a.stolen")
	s := catalog.Merge([]catalog.Source{a, b}, options())
	upstreamtest.Equal(t, []string{"a.y= a:y", "short= a:x", "foreign_prefix a.stolen"}, show(s), "catalog")
	// One name with two sets of fixed arguments is not one prompt.
	with := func(value string) catalog.Source {
		source := upstream(t, "a/"+value)
		source.Prompts = []*catalog.Prompt{renamed(parse(t, `{"name":"x","arguments":[{"name":"c"}]}`), "one", values("c", `"`+value+`"`)...)}
		return source
	}
	s = catalog.Merge([]catalog.Source{with("eur"), with("usd")}, options())
	upstreamtest.Equal(t, []string{"conflict one"}, show(s), "catalog")
	changed := with("eur")
	changed.Prompts[0] = renamed(parse(t, `{"name":"x","arguments":[{"name":"c"}]}`), "one", values("c", `"chf"`)...)
	first := catalog.Merge([]catalog.Source{with("eur")}, options())
	if later := refreshed(first, changed); later == first || later.Entries()[0].Overrides.Fixed[0].Value.String() != `"chf"` {
		t.Error("another fixed value is no change")
	} else if later.Entries()[0].Fingerprint != first.Entries()[0].Fingerprint {
		t.Error("a client would hear of a change that it cannot see")
	}
}

func TestArgumentOverrides_AreAddedToWhatAClientSends(t *testing.T) {
	plain := parse(t, `{"name":"skill:x","arguments":[{"name":"a"},{"name":"b"}]}`) // a prompt, since the upstream has no skills
	overridden, err := plain.Override(t.Context(), &config.Override{Fixed: values("a", `"A"`), Defaults: values("b", `"B"`)})
	if err != nil {
		t.Fatal(err)
	}
	for sent, want := range map[string]string{`{}`: `{"a":"A","b":"B"}`, `{"b":"2","a":"1"}`: `{"b":"2","a":"A"}`} {
		arguments := wire.Members(jsontext.Value(sent))
		upstreamtest.Equal(t, want, string(overridden.Overrides.AddTo(arguments).JSON()), "of %s", sent)
		upstreamtest.Equal(t, sent, string(plain.Overrides.AddTo(arguments).JSON()), "without overrides")
	}
}

// A default of an optional argument leaves the definition as it is.
func TestWith_SeesADefaultThatComesOrGoes(t *testing.T) {
	plain, defaulted := upstream(t, "a/a"), upstream(t, "a/a")
	plain.Prompts = append(plain.Prompts, parse(t, `{"name":"x","arguments":[{"name":"c"}]}`))
	overridden, err := plain.Prompts[0].Override(t.Context(), &config.Override{Defaults: values("c", `"eur"`)})
	if err != nil {
		t.Fatal(err)
	}
	defaulted.Prompts = append(defaulted.Prompts, &overridden)
	first := catalog.Merge([]catalog.Source{plain}, options())
	second := refreshed(first, defaulted)
	if second == first || refreshed(second, plain) == second || len(catalog.Diff(first, second)) != 1 {
		t.Error("a default that came or went is no change")
	}
}

func TestOverride_ChecksValuesAgainstSchemas(t *testing.T) {
	p := parse(t, `{"name":"a","arguments":[{"name":"n","schema":{"type":"integer","maximum":9}},`+
		`{"name":"external","schema":{"$ref":"https://example.com/s"}},{"name":"broken","schema":{"type":7}}]}`)
	for _, test := range []struct{ argument, value, problem string }{
		{"n", `7`, ""},
		{"n", `10`, `argument "n" breaks its schema: `},
		{"n", `"7"`, `argument "n" breaks its schema: `},
		{"external", `"x"`, ""}, // the server decides
		{"broken", `"x"`, ""},
	} {
		values := []config.ArgumentOverride{{Name: test.argument, Value: jsontext.Value(test.value)}}
		for kind, overrides := range map[string]config.Override{"fixed": {Fixed: values}, "default": {Defaults: values}} {
			_, err := p.Override(t.Context(), &overrides)
			if fits := test.problem == ""; fits != (err == nil) || !fits && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s %s = %s: error %v, want %q", kind, test.argument, test.value, err, test.problem)
			}
		}
	}
}

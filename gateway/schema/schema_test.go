package schema_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/gateway/schema"
)

func compile(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(jsontext.Value(text))
	if err != nil {
		t.Fatalf("Compile(%.200s): %v", text, err)
	}
	return s
}

func TestCheck_DecidesAsTheDialectSays(t *testing.T) {
	valid := func(text string, values ...string) {
		t.Helper()
		for _, value := range values {
			if err := compile(t, text).Check(t.Context(), jsontext.Value(value)); err != nil {
				t.Errorf("%s does not satisfy %s: %v", value, text, err)
			}
		}
	}
	invalid := func(text, value, because string) {
		t.Helper()
		err := compile(t, text).Check(t.Context(), jsontext.Value(value))
		if _, ok := errors.AsType[*schema.Invalid](err); !ok || err.Error() != because {
			t.Errorf("%s under %s: %v, want %q", value, text, err, because)
		}
	}
	valid(`true`, `"x"`, `null`)
	valid(`{}`, `1e3`, `{"a":[]}`)
	invalid(`false`, `"x"`, "false schema")
	valid(`{"type":"integer"}`, `7`, `1.0`, `12345678901234567890`)
	invalid(`{"type":"integer"}`, `"7"`, "got string, want integer")
	invalid(`{"enum":["a","b"]}`, `"c"`, "value must be one of 'a', 'b'")
	valid(`{"format":"email"}`, `"no address"`) // not asserted since 2019-09
	invalid(`{"$schema":"http://json-schema.org/draft-07/schema#","format":"email"}`, `"none"`, "'none' is not valid email: missing @")
	valid(`{"pattern":"^\\p{L}+$"}`, `"grüße"`)

	// In draft-07 the members beside a $ref are ignored, in 2020-12 they are not.
	beside := `"$ref":"#/definitions/s","maxLength":1,"definitions":{"s":{"type":"string"}}}`
	valid(`{"$schema":"http://json-schema.org/draft-07/schema#",`+beside, `"long"`)
	invalid(`{`+beside, `"long"`, "maxLength: got 4, want 1")
	invalid(`{"$schema":"https://json-schema.org/draft/2020-12/schema",`+beside, `"long"`, "maxLength: got 4, want 1")

	// Numbers that are equal as floats.
	invalid(`{"maximum":9007199254740992}`, `9007199254740993`, "maximum: got 9007199254740993, want 9007199254740992")
	invalid(`{"const":0.1}`, `0.1000000000000000000000000000000000000001`, "value must be 0.1")
	valid(`{"const":0.1}`, `1e-1`, `0.10`)
	valid(`{"multipleOf":0.01}`, `19.99`)

	invalid(`{"properties":{"a/b":{"type":"string"},"c":{"items":{"minimum":2}}},"required":["d"]}`, `{"a/b":1,"c":[3,1,0]}`,
		"missing property 'd'; at /a~1b: got number, want string; at /c/1: minimum: got 1, want 2; at /c/2: minimum: got 0, want 2")
	invalid(`{"anyOf":[{"type":"string"},{"type":"object","required":["x"]}]}`, `{}`, "missing property 'x'; got object, want string")
	invalid(`{"multipleOf":0.1}`, `1.25`, "multipleOf: got 1.25, want 0.1")
}

func TestCheck_ReportsFewShortProblems(t *testing.T) {
	value := `[` + strings.Repeat(`"`+strings.Repeat("ü", 1000)+`",`, 100) + `1]`
	err := compile(t, `{"items":{"pattern":"^x*$"}}`).Check(t.Context(), jsontext.Value(value))
	problems, _ := errors.AsType[*schema.Invalid](err)
	if problems == nil || len(problems.Problems) != 5 || len(err.Error()) > 1500 {
		t.Errorf("Check: %d bytes: %.200s", len(fmt.Sprint(err)), fmt.Sprint(err))
	}
	large := `{"enum":["` + strings.Repeat("x", 10_000) + `"]}`
	if err := compile(t, large).Check(t.Context(), jsontext.Value(`"y"`)); err == nil || len(err.Error()) > 300 {
		t.Errorf("Check: %d bytes", len(fmt.Sprint(err)))
	}
}

func TestCompile_RefusesWhatItCannotCheck(t *testing.T) {
	for text, want := range map[string]error{
		`{"$ref":"https://example.com/s.json"}`:                   schema.ErrExternal,
		`{"$ref":"other.json#/x"}`:                                schema.ErrExternal,
		`{"$ref":"file:///etc/passwd"}`:                           schema.ErrExternal,
		`{"items":{"$ref":"/etc/passwd"}}`:                        schema.ErrExternal,
		`{"$dynamicRef":"https://example.com/s.json#x"}`:          schema.ErrExternal,
		`{"$id":"https://example.com/a/","$ref":"b"}`:             schema.ErrExternal,
		`{"$schema":"https://example.com/dialect"}`:               schema.ErrDialect,
		`{"$schema":"http://json-schema.org/draft-03/schema#"}`:   schema.ErrDialect,
		`{"$schema":"file:///etc/passwd"}`:                        schema.ErrDialect,
		`{"$schema":"dialect"}`:                                   schema.ErrDialect,
		`7`:                                                       nil,
		`"string"`:                                                nil,
		`{"type":"strin"}`:                                        nil,
		`{"type":["string",7]}`:                                   nil,
		`{"maximum":"7"}`:                                         nil,
		`{"$ref":"#/nowhere"}`:                                    nil,
		`{"pattern":"(?=x)"}`:                                     nil, // RE2 has no lookahead
		`{"pattern":"("}`:                                         nil,
		`{"pattern":"` + strings.Repeat("x", 3000) + `"}`:         nil,
		`{"maximum":1e999999}`:                                    schema.ErrTooLarge,
		`{"title":"` + strings.Repeat("x", schema.MaxSize) + `"}`: nil,
		`{"anyOf":[` + strings.Repeat("{},", 1000) + `{}]}`:       nil,
		`{"anyOf":[` + strings.Repeat(`{"pattern":"x{1000}"},`, 99) + `true]}`: nil,
	} {
		_, err := schema.Compile(jsontext.Value(text))
		if err == nil {
			t.Errorf("Compile(%.200s): no error", text)
		}
		for _, kind := range []error{schema.ErrExternal, schema.ErrDialect, schema.ErrTooLarge} {
			if errors.Is(err, kind) != (kind == want) { //nolint:errorlint // the sentinel itself
				t.Errorf("Compile(%.200s): %v, want %v", text, err, want)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(path, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Compile(jsontext.Value(`{"$ref":"file://` + path + `"}`)); !errors.Is(err, schema.ErrExternal) {
		t.Errorf("an existing file: %v", err)
	}
	// References within the document, and to built-in meta-schemas, are not external.
	for _, text := range []string{
		`{"$id":"https://example.com/a","$ref":"b","$defs":{"b":{"$id":"b","type":"string"}}}`,
		`{"$ref":"#x","$defs":{"x":{"$anchor":"x","type":"string"}}}`,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`,
	} {
		if err := compile(t, text).Check(t.Context(), jsontext.Value(`7`)); err == nil {
			t.Errorf("7 satisfies %s", text)
		}
	}
}

// doubling is a schema whose subschemas each refer to the next one twice: 2⁶⁰ evaluations without a bound.
func doubling(keyword string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&b, `"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, keyword, i+1, i+1)
	}
	return b.String() + `"d60":{"type":"null"}}}`
}

// TestCheck_EndsWithinItsBudget has schemas and values that would take far longer without bounds.
func TestCheck_EndsWithinItsBudget(t *testing.T) {
	nested := strings.Repeat("[", 30) + strings.Repeat("]", 30)
	strings4M := `"` + strings.Repeat("a", 4<<20) + `"`
	var values strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&values, "%d,", i)
	}
	many := `[` + strings.Repeat("-1,", 80_000) + `-1]`
	for name, test := range map[string]struct {
		schema, value string
		want          error // nil for a value that is invalid
	}{
		"anyOf doubles":                {doubling("anyOf"), `7`, schema.ErrTooCostly},
		"allOf doubles":                {doubling("allOf"), `null`, schema.ErrTooCostly},
		"oneOf doubles":                {doubling("oneOf"), `7`, schema.ErrTooCostly},
		"recursion doubles":            {`{"items":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]},"maxItems":0}`, nested, schema.ErrTooCostly},
		"items and contains":           {`{"not":{"$ref":"#/$defs/n"},"$defs":{"n":{"items":{"$ref":"#/$defs/n"},"contains":{"$ref":"#/$defs/n"}}}}`, nested, schema.ErrTooCostly},
		"the same in draft-07":         {`{"$schema":"http://json-schema.org/draft-07/schema#","not":{"$ref":"#/definitions/n"},"definitions":{"n":{"items":{"$ref":"#/definitions/n"},"contains":{"$ref":"#/definitions/n"}}}}`, nested, schema.ErrTooCostly},
		"dynamic references":           {`{"$dynamicAnchor":"n","contains":{"$dynamicRef":"#n"},"items":{"$dynamicRef":"#n"}}`, strings.Repeat("[", 30) + "[],[]" + strings.Repeat("]", 30), schema.ErrTooCostly},
		"many values and a long enum":  {`{"items":{"enum":[` + strings.TrimSuffix(values.String(), ",") + `]}}`, many, schema.ErrTooCostly},
		"a pattern that backtracks":    {`{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 100_000) + `!"`, nil},
		"a large pattern on much text": {`{"pattern":"(a?){1000}x"}`, strings4M, schema.ErrTooCostly},
		"a reference to itself":        {`{"$ref":"#"}`, `7`, nil},
		"a huge number":                {`{"maximum":1}`, `1e999999999`, schema.ErrTooLarge},
		"a tiny number":                {`{"type":"integer"}`, `1e-999999999`, schema.ErrTooLarge},
		"a long number":                {`{"maximum":1}`, strings.Repeat("9", 100_000), schema.ErrTooLarge},
		"a huge number deep inside":    {`{"uniqueItems":true}`, `[[{"x":1E+12345}]]`, schema.ErrTooLarge},
		"a deep value":                 {`{"maxItems":0}`, strings.Repeat("[", 100) + strings.Repeat("]", 100), schema.ErrTooLarge},
		"a large value":                {`{"maxItems":0}`, `[` + strings.Repeat("1,", 200_000) + `1]`, schema.ErrTooLarge},
		"long text":                    {`{"maxLength":10}`, strings4M, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := compile(t, test.schema)
			begun := time.Now()
			err := s.Check(t.Context(), jsontext.Value(test.value))
			if took := time.Since(begun); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			_, invalid := errors.AsType[*schema.Invalid](err)
			if invalid != (test.want == nil) || !invalid && !errors.Is(err, test.want) {
				t.Errorf("Check: %v, want %v", err, test.want)
			}
		})
	}
}

// TestCheck_DeepRecursionFitsTheStack puts as many calls on the stack as the bounds allow.
func TestCheck_DeepRecursionFitsTheStack(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	const chain = 990
	for i := range chain {
		fmt.Fprintf(&b, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"items":{"$ref":"#/$defs/d0"}}}}`, chain)
	err := compile(t, b.String()).Check(t.Context(), jsontext.Value(strings.Repeat("[", 32)+strings.Repeat("]", 32)))
	if err != nil && !errors.Is(err, schema.ErrTooCostly) {
		t.Error(err)
	}
}

func TestCheck_TakesTurnsAndEndsWithItsContext(t *testing.T) {
	s := compile(t, doubling("anyOf"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var checks sync.WaitGroup
	for range 4 {
		checks.Go(func() {
			if err := s.Check(t.Context(), jsontext.Value(`null`)); err != nil {
				t.Error(err)
			}
			if err := s.Check(ctx, jsontext.Value(`7`)); !errors.Is(err, context.Canceled) && !errors.Is(err, schema.ErrTooCostly) {
				t.Error(err)
			}
		})
	}
	checks.Wait()
}

// TestCheck_AgreesWithTheUnboundedValidator compares the bounded validator with the library's own.
func TestCheck_AgreesWithTheUnboundedValidator(t *testing.T) {
	schemas := []string{
		`{"properties":{"a":{"type":"integer"}},"unevaluatedProperties":false,"anyOf":[{"properties":{"b":true}},{"required":["c"]}]}`,
		`{"prefixItems":[{"type":"string"}],"items":{"type":"integer"},"contains":{"const":2},"maxContains":1}`,
		`{"unevaluatedItems":{"type":"null"},"allOf":[{"prefixItems":[true]},{"contains":{"type":"boolean"}}]}`,
		`{"$dynamicAnchor":"n","type":["object","array","integer"],"properties":{"a":{"$dynamicRef":"#n"}},"additionalProperties":false,"uniqueItems":true}`,
		`{"$id":"https://x/tree","$dynamicAnchor":"n","type":"object","properties":{"a":{"$ref":"list"}},"$defs":{"l":{"$id":"list","type":"array","items":{"$dynamicRef":"#n"},"$defs":{"n":{"$dynamicAnchor":"n"}}}}}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"anyOf":[{"type":"integer"},{"type":"array","items":{"$recursiveRef":"#"}}],"unevaluatedItems":false}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","if":{"type":"object"},"then":{"propertyNames":{"maxLength":1},"dependencies":{"a":["b"]}},"else":{"not":{"enum":[1,"x",[]]}}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://x/","type":"object","minProperties":1,"patternProperties":{"^a":{"minimum":1,"exclusiveMinimum":true}}}`,
		`{"dependentSchemas":{"a":{"required":["b"]}},"oneOf":[{"minProperties":1},{"maxProperties":2}],"unevaluatedProperties":{"type":"string"}}`,
	}
	verdicts := map[bool]int{}
	for _, text := range schemas {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("test:///schema", document); err != nil {
			t.Fatal(err)
		}
		plain, err := compiler.Compile("test:///schema")
		if err != nil {
			t.Fatal(err)
		}
		s := compile(t, text)
		rapid.Check(t, func(t *rapid.T) {
			value := values(3).Draw(t, "value")
			decoded, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			want := plain.Validate(decoded)
			got := s.Check(t.Context(), jsontext.Value(value))
			if (got == nil) != (want == nil) {
				t.Errorf("%s under %s: %v, the library says %v", value, text, got, want)
			}
			verdicts[got == nil]++
		})
	}
	if few := (verdicts[true] + verdicts[false]) / 5; verdicts[true] < few || verdicts[false] < few {
		t.Errorf("%d valid and %d invalid values say little", verdicts[true], verdicts[false])
	}
}

// values are any that nest at most so deep.
func values(depth int) *rapid.Generator[string] {
	flat := rapid.SampledFrom([]string{"null", "true", "false", "1", "2", "1.5", "2.0", "-3", `"x"`, `""`, `"long"`})
	if depth == 0 {
		return flat
	}
	elements := rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), func(all []string) string { return "[" + strings.Join(all, ",") + "]" })
	members := rapid.Map(rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "aa"}), values(depth-1)), func(all map[string]string) string {
		var members []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			members = append(members, fmt.Sprintf("%q:%s", name, all[name]))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
	return rapid.OneOf(flat, elements, members)
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []struct{ schema, value string }{
		{`{"type":"string","pattern":"^a+$"}`, `"aaa"`},
		{`{"$ref":"#"}`, `[]`},
		{`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"enum":[1,2.0,"x"]}},"unevaluatedProperties":false}`, `{"a":2,"b":1e5}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, `"(a"`},
		{`{"multipleOf":0,"minLength":-1}`, `0`},
	} {
		f.Add(seed.schema, seed.value)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if !jsontext.Value(text).IsValid() || !jsontext.Value(value).IsValid() {
			return
		}
		begun := time.Now()
		s, err := schema.Compile(jsontext.Value(text))
		if err != nil {
			return
		}
		err = s.Check(t.Context(), jsontext.Value(value))
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s under %s took %v", value, text, took)
		}
		if err != nil && strings.Contains(err.Error(), "cannot be checked") {
			t.Errorf("%s under %s: %v", value, text, err)
		}
	})
}

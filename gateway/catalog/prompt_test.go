package catalog_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

func parse(t rapid.TB, raw string) *catalog.Prompt {
	t.Helper()
	p, err := catalog.ParsePrompt(jsontext.Value(raw))
	if err != nil {
		t.Fatalf("ParsePrompt(%s): %v", raw, err)
	}
	return &p
}

// everything is a definition with all that a careless gateway loses.
const everything = `{"x-before":[12345678901234567890,2.50,1e3,-0,1E+2],"\u006eame":"re\u0076iew","title":"R\u00e9view \/ 😀",` +
	`"description":"line\nline","icons":[{"src":"https://x/i.png","sizes":["48x48"],"theme":"dark"}],` +
	`"arguments":[{"name":"code","required":true,"schema":{ "type" : "string" },"z":null},{"name":"style","required":false},` +
	`{"name":"langu\u0061ge","required":true}],"includeContext":"thisServer","_meta":{"com.example/a":{"name":"inner"}},"unknown":null}`

func TestParsePrompt_IsLossless(t *testing.T) {
	for _, test := range []struct{ prefix, raw, want string }{
		{"", everything, everything},
		{"billing", everything, strings.Replace(everything, `"re\u0076iew"`, `"billing.review"`, 1)},
		{"b", `{"name":"only"}`, `{"name":"b.only"}`},
		{"b", `{"a":{},"name":"last"}`, `{"a":{},"name":"b.last"}`},
		{"b", `{"a":"name","b":{"name":"x"},"name":"x","c":"x"}`, `{"a":"name","b":{"name":"x"},"name":"b.x","c":"x"}`},
		{"é", `{"name":"\"\n"}`, `{"name":"é.\"\n"}`},
		{"b", "{\n  \"name\": \"x\",\r\n  \"n\": [\n    2.50\n  ]\n}\n", `{"name":"b.x","n":[2.50]}`},
	} {
		s := catalog.Merge([]catalog.Source{{Upstream: "u", Prefix: test.prefix, Prompts: []*catalog.Prompt{parse(t, test.raw)}}}, options())
		upstreamtest.Equal(t, test.want, string(s.Entries()[0].JSON), "%s under %q", test.raw, test.prefix)
	}
}

func TestParsePrompt_ReadsTheDefinition(t *testing.T) {
	raw := []byte(everything)
	p, err := catalog.ParsePrompt(raw)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "review" || string(p.Definition) != everything {
		t.Errorf("ParsePrompt: %q, %s", p.Name, p.Definition)
	}
	if &p.Definition[0] != &raw[0] { // a list of many prompts would be there twice
		t.Error("the definition was copied")
	}
	arguments := []catalog.Argument{
		{Name: "code", Required: true, Schema: new(jsontext.Value(`{ "type" : "string" }`))}, {Name: "style"}, {Name: "language", Required: true},
	}
	upstreamtest.Equal(t, arguments, p.Arguments, "Arguments")
	e := catalog.Merge([]catalog.Source{{Upstream: "u", Prompts: []*catalog.Prompt{&p}}}, options()).Lookup("review")
	if text(e, "title") != "Réview / 😀" || text(e, "description") != "line\nline" {
		t.Errorf("title, description = %q, %q", text(e, "title"), text(e, "description"))
	}
}

func TestParsePrompt_RefusesWhatIsNotAPrompt(t *testing.T) {
	reject := func(raw, because string) {
		t.Helper()
		_, err := catalog.ParsePrompt(jsontext.Value(raw))
		if err == nil || !strings.Contains(err.Error(), because) {
			t.Errorf("ParsePrompt(%.80s): error %v, want one with %q", raw, err, because)
		}
	}
	reject(``, "no JSON value")
	reject(`null`, "not a JSON object")
	reject(`"review"`, "not a JSON object")
	reject(`{}`, "name must be a string")
	reject(`{"name":null}`, "name must be a string")
	reject(`{"name":7}`, "name must be a string")
	reject(`{"name":""}`, "name must not be empty")
	reject(`{"name":"a","name":"b"}`, "duplicate")
	reject(`{"name":"a","x":{"y":1,"y":2}}`, "duplicate")
	reject("{\"name\":\"\xff\"}", "UTF-8")
	reject("{\n\"name\":\"\xff\"}", "UTF-8")
	reject(`{"name":"\ud800"}`, "surrogate")
	reject(`{"name":"a"}{}`, "after the end")
	reject(`{"name":"a","x":`+strings.Repeat("[", 128)+strings.Repeat("]", 128)+`}`, "nested deeper")

	// Each of these would make clients that check the schema refuse the whole list.
	reject(`{"name":"a","title":7}`, `prompt "a": title must be a string, not a number`)
	reject(`{"name":"`+strings.Repeat("n", 256)+`","title":7}`, `prompt "`+strings.Repeat("n", 256)+`": title`)
	reject(`{"name":"a","_meta":[]}`, "_meta must be an object, not an array")
	reject(`{"name":"a","icons":{}}`, "icons must be an array, not an object")
	reject(`{"name":"a","icons":["i.png"]}`, "icons[0]: not a JSON object")
	reject(`{"name":"a","icons":[{"src":"a"},{}]}`, "icons[1]: src must be a string")
	reject(`{"name":"a","arguments":["x"]}`, "arguments[0]: not a JSON object")
	reject(`{"name":"a","arguments":[{"name":"x"},{"required":true}]}`, "arguments[1]: name must be a string")
	reject(`{"name":"a","arguments":[{"name":"x","required":"yes"}]}`, "arguments[0]: required must be a boolean, not a string")
	reject(`{"name":"a","arguments":[{"name":"x","description":{}}]}`, "arguments[0]: description must be a string, not an object")
}

func TestPromptHash_IsEqualForEqualMeaning(t *testing.T) {
	same := func(a, b string, want bool) {
		t.Helper()
		upstreamtest.Equal(t, want, parse(t, a).Hash == parse(t, b).Hash, "%s and %s: same", a, b)
	}
	same(`{"name":"a","x":1,"y":2}`, `{ "y" : 2, "x" : 1, "name" : "a" }`, true)
	same(`{"name":"a","title":"A"}`, `{"name":"b","title":"A"}`, true) // names are compared where they are exposed
	same(`{"name":"a","title":"é"}`, `{"name":"a","title":"\u00e9"}`, true)
	same(`{"name":"a","x":[2.50,1e3,-0]}`, `{"name":"a","x":[2.5,1000,0]}`, true)
	same(`{"name":"a","x":[1,2]}`, `{"name":"a","x":[2,1]}`, false)
	same(`{"name":"a","x":null}`, `{"name":"a"}`, false)
	same(`{"name":"a","x":{"name":"b"}}`, `{"name":"a","x":{"name":"c"}}`, false)
	same(`{"name":"a","x":12345678901234567890}`, `{"name":"a","x":12345678901234567891}`, false)
	same(`{"name":"a","title":"e\u0301"}`, `{"name":"a","title":"é"}`, false)
}

func FuzzParsePrompt(f *testing.F) {
	for _, seed := range []string{everything, `{"name":"a"}`, "{\n\"name\":\"a\"}", `{"name":""}`, `{"a":"name","name":"x"}`, `{"name":"a","arguments":null}`} {
		f.Add([]byte(seed), "p")
	}
	f.Fuzz(func(t *testing.T, raw []byte, prefix string) {
		before := bytes.Clone(raw)
		p, err := catalog.ParsePrompt(raw)
		if !bytes.Equal(before, raw) {
			t.Fatalf("ParsePrompt(%q) changed its argument", before)
		}
		if err != nil {
			return
		}
		if p.Name == "" || bytes.ContainsAny(p.Definition, "\r\n") {
			t.Fatalf("ParsePrompt(%q) = %q, %q", raw, p.Name, p.Definition)
		}
		if again := parse(t, string(p.Definition)); !cmp.Equal(&p, again, cmp.AllowUnexported(catalog.Prompt{})) {
			t.Errorf("ParsePrompt(%q) = %+v, read again %+v", raw, p, again)
		}
		s := catalog.Merge([]catalog.Source{{Upstream: "u", Prefix: validUTF8(prefix), Prompts: []*catalog.Prompt{&p}}}, options())
		for _, e := range s.Entries() {
			checkEntry(t, p, e)
		}
	})
}

func validUTF8(text string) string { return strings.ToValidUTF8(text, "") }

// checkEntry holds an entry against its definition with a reader that is not ours.
func checkEntry(t *testing.T, p catalog.Prompt, e *catalog.Entry) {
	t.Helper()
	var want, got map[string]json.RawMessage
	if err := json.Unmarshal(p.Definition, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(e.JSON, &got); err != nil {
		t.Fatalf("%s becomes %s: %v", p.Definition, e.JSON, err)
	}
	var name string
	if err := json.Unmarshal(got["name"], &name); err != nil || name != e.Name {
		t.Errorf("%s becomes %s under %q", p.Definition, e.JSON, e.Name)
	}
	want["name"] = got["name"]
	upstreamtest.Equal(t, want, got, "%s becomes %s", p.Definition, e.JSON)
	if _, err := wire.ParseObject(e.JSON); err != nil {
		t.Errorf("%s becomes %s: %v", p.Definition, e.JSON, err)
	}
}

package requests_test

import (
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/schema"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// getting makes gets of one prompt.
type getting struct {
	t    testing.TB
	c    *caller
	p    *peer
	name string
}

// refuse wants a get with the arguments to be refused before it reaches the upstream.
func (g getting) refuse(arguments string, parts ...string) {
	g.t.Helper()
	before := len(g.p.calls("prompts/get"))
	a := g.c.callUnchecked("prompts/get", `{"name":"`+g.name+`"`+arguments+`}`)
	a.want(g.t, append(parts, `"code":-32602`)...)
	gatewaytest.CheckSchema(g.t, g.c.revision, "prompts/get", a.Body)
	if n := len(g.p.calls("prompts/get")); n != before {
		g.t.Errorf("%s: the get reached the upstream", arguments)
	}
}

// pass wants the upstream to receive the arguments byte for byte.
func (g getting) pass(arguments string) {
	g.t.Helper()
	g.becomes(arguments, arguments)
}

// becomes wants the upstream to receive other arguments.
func (g getting) becomes(sent, arguments string) {
	g.t.Helper()
	g.c.callUnchecked("prompts/get", `{"name":"`+g.name+`"`+sent+`}`).want(g.t, "from p")
	calls := g.p.calls("prompts/get")
	if len(calls) == 0 {
		g.t.Fatalf("%s: the get did not reach the upstream", arguments)
	}
	if got := calls[len(calls)-1]; !strings.Contains(got, arguments) || (arguments == "" && strings.Contains(got, `"arguments"`)) {
		g.t.Errorf("the upstream received %s, want %s in it", got, arguments)
	}
}

// ofNone returns a getting of the peer's prompt without arguments.
func (g getting) ofNone() getting {
	g.name = "p.none"
	return g
}

func TestArguments_RequiredMustBePresent(t *testing.T) {
	p := newPeer("p", `{"name":"a","arguments":[{"name":"x","required":true},{"name":"y"},{"name":"z","required":true}]}`, "none")
	s := serve(t, teamOf("eng", "", "", p), p)
	for _, c := range []*caller{s.modern(""), s.legacy("2024-11-05", "")} {
		a := getting{t, c, p, "p.a"}
		a.refuse(``, "Missing required argument: x", `"data":{"argument":"x","reason":"missing"}`)
		a.refuse(`,"arguments":{}`, "Missing required argument: x")
		a.refuse(`,"arguments":{"x":"1"}`, "Missing required argument: z")
		a.refuse(`,"arguments":["x"]`, "arguments must be an object")
		a.refuse(`,"arguments":[ ]`, "Missing required argument: x")
		a.refuse(`,"arguments":{"x":"1","z":"2","y":7}`, "Invalid argument y: it must be a string", `"data":{"argument":"y","reason":"type"}`)
		a.refuse(`,"arguments":{"x":"1","z":null}`, "Invalid argument z: it must be a string")
		a.becomes(`,"arguments":{"x":"1","y":null,"z":"2"}`, `,"arguments":{"x":"1","z":"2"}`)
		a.becomes(`,"arguments":{"x":"","z":"","undeclared":null}`, `,"arguments":{"x":"","z":"","undeclared":null}`)
		a.ofNone().becomes(`,"arguments":[ ]`, `,"arguments":{}`)
		a.refuse(`,"arguments":{"x":1,"z":"2"}`, "Invalid argument x: it must be a string")
		a.refuse(`,"arguments":{"x":{"a":"b"},"z":"2"}`, "Invalid argument x: it must be a string")
		a.refuse(`,"arguments":{`+many(1001)+`}`, "too many arguments")
		a.pass(`,"arguments":{"z":"","x":"\u0041\/"}`)
		a.pass(`,"arguments":{"undeclared":[1.0,{"a":null}],"z":"","x":"","\u0058":7}`)
		a.ofNone().pass(``)
		a.ofNone().pass(`,"arguments":{}`)
		a.ofNone().pass(`,"arguments":{"undeclared":12345678901234567890}`)

		c.callUnchecked("prompts/get", `{"name":7}`).want(t, `"code":-32602`, "name must be a string")
		c.callUnchecked("prompts/get", `{}`).want(t, `"code":-32602`, "name must be a string")
		c.callUnchecked("prompts/get", `{"name":"p.b","arguments":[]}`).want(t, "Unknown prompt: p.b")
	}
}

// many returns n members of an object.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"m` + strings.Repeat("i", i) + `":""`)
	}
	return b.String()
}

func TestArguments_MustSatisfyTheirSchema(t *testing.T) {
	p := newPeer("p", `{"name":"a","arguments":[
		{"name":"n","schema":{"type":"integer","maximum":9007199254740992}},
		{"name":"tags","schema":{"type":"array","items":{"enum":["x","y"]},"maxItems":3}},
		{"name":"old","schema":{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/s","definitions":{"s":{"type":"string","pattern":"^a+$"}}}},
		{"name":"any","required":true,"schema":true},
		{"name":"maybe","schema":{"type":["string","null"]}},
		{"name":"text","schema":null}]}`)
	s := serve(t, teamOf("eng", "", "", p), p)
	for _, c := range []*caller{s.modern(""), s.legacy("2025-11-25", "")} {
		a := getting{t, c, p, "p.a"}
		a.refuse(``, "Missing required argument: any")
		a.pass(`,"arguments":{"any":null}`)
		a.becomes(`,"arguments":{"n":null,"any":null,"maybe":null,"text":null}`, `,"arguments":{"any":null,"maybe":null}`)
		a.pass(`,"arguments":{"any":{"deep":[1e3]},"n":9007199254740992,"tags":["x","y"],"old":"aaa","text":"t"}`)
		a.pass(`,"arguments":{"n":1.0,"any":0}`)
		a.refuse(`,"arguments":{"any":0,"n":9007199254740993}`, "Invalid argument n: maximum: got 9007199254740993, want 9007199254740992",
			`"data":{"argument":"n","reason":"schema","problems":[{"at":"","problem":"maximum: got 9007199254740993, want 9007199254740992"}]}`)
		a.refuse(`,"arguments":{"any":0,"n":"7"}`, "Invalid argument n: got string, want integer")
		a.refuse(`,"arguments":{"any":0,"tags":["x",1,"z"]}`, "Invalid argument tags: at /1: value must be one of 'x', 'y'", `{"at":"/2",`)
		a.refuse(`,"arguments":{"any":0,"old":"b"}`, "Invalid argument old: 'b' does not match pattern")
		a.refuse(`,"arguments":{"any":0,"text":7}`, "Invalid argument text: it must be a string")
		a.refuse(`,"arguments":{"any":0,"n":1e999999999}`, "Invalid argument n: the value is too large to be checked", `"reason":"unverifiable"`)
	}
}

func TestArguments_ErrorsAreShort(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	p := newPeer("p", `{"name":"a","arguments":[{"name":"`+long+`","schema":{"pattern":"^x*$"}}]}`, `{"name":"b","arguments":[{"name":"`+long+`","required":true}]}`)
	s := serve(t, teamOf("eng", "", "", p), p)
	c := s.modern("")
	for _, params := range []string{`{"name":"p.a","arguments":{"` + long + `":"` + long + `"}}`, `{"name":"p.b"}`} {
		if a := c.callUnchecked("prompts/get", params); !strings.Contains(a.Body, `"code":-32602`) || len(a.Body) > 1500 {
			t.Errorf("the error has %d bytes, want -32602 in at most 1500: %.300s", len(a.Body), a.Body)
		}
	}
}

func TestArguments_UnusableSchemaIsLoggedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		schema  string
		refused string // "" if the upstream decides
	}{
		"another document":   {`{"$ref":"https://example.com/s.json"}`, "the schema refers to another document, which is not loaded: https://example.com/s.json"},
		"a file":             {`{"$ref":"file:///etc/passwd"}`, "the schema refers to another document"},
		"an unknown dialect": {`{"$schema":"https://example.com/dialect","type":"string"}`, "$schema names a dialect that is not supported"},
		"no schema":          {`{"type":"strin"}`, ""},
		"not even an object": {`7`, ""},
		"a lookahead":        {`{"pattern":"(?=x)"}`, ""},
		"too large":          {`{"title":"` + strings.Repeat("x", schema.MaxSize) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer("p", `{"name":"a","arguments":[{"name":"x","schema":`+test.schema+`}]}`)
			s, log := serveLogged(t, teamOf("eng", "", "", p), p)
			a := getting{t, s.modern(""), p, "p.a"}
			for _, value := range []string{`"x"`, `7`, `{"a":[]}`} {
				if test.refused == "" {
					a.pass(`,"arguments":{"x":` + value + `}`)
				} else {
					a.refuse(`,"arguments":{"x":`+value+`}`, "Invalid argument x: its schema cannot be used: "+test.refused, `"reason":"unverifiable"`)
				}
			}
			a.pass(`,"arguments":{}`)
			upstreamtest.Equal(t, 1, log.Count("argument schema cannot be used"), "lines about the schema")
		})
	}
}

func TestArguments_FollowAChangedSchema(t *testing.T) {
	definition := func(kind string) string {
		return `{"name":"a","arguments":[{"name":"x","schema":{"type":"` + kind + `"}}]}`
	}
	p := newPeer("p", definition("string"))
	s := serve(t, teamOf("eng", "", "", p), p)
	a := getting{t, s.modern(""), p, "p.a"}
	a.pass(`,"arguments":{"x":"7"}`)
	a.refuse(`,"arguments":{"x":7}`, "want string")
	s.Start()
	p.List(definition("integer"))
	upstreamtest.Eventually(t, "the new definition is listed", func() bool { return strings.Contains(a.c.call("prompts/list", "").Body, "integer") })
	a.pass(`,"arguments":{"x":7}`)
	a.refuse(`,"arguments":{"x":"7"}`, "want integer")
}

func TestArguments_OfInvisiblePromptsAreNotChecked(t *testing.T) {
	p := newPeer("p", `{"name":"a","arguments":[{"name":"x","required":true,"schema":{"$ref":"https://example.com/"}}]}`)
	s := serve(t, "auth {\n"+gatewaytest.Token("insider")+gatewaytest.Token("outsider")+"}\n"+teamOf("eng", `"user:insider"`, "", p), p)
	s.modern("insider").callUnchecked("prompts/get", `{"name":"p.a"}`).want(t, "Missing required argument")
	for _, arguments := range []string{``, `,"arguments":{"x":7}`, `,"arguments":[]`} {
		s.modern("outsider").callUnchecked("prompts/get", `{"name":"p.a"`+arguments+`}`).want(t, `{"code":-32602,"message":"Unknown prompt: p.a"}`)
	}
}

const invoiceDefinition = `{"name":"review_invoice","x":1.0,"arguments":[{"name":"id","required":true},{"name":"currency","required":true},{"name":"lang","required":true}]}`

// serveOverridden serves a prompt whose block gives it another name, a fixed argument and a default one.
func serveOverridden(t *testing.T) (s *memory, p *peer) {
	p = newPeer("billing", invoiceDefinition, "plain", `{"name":"other","arguments":[{"name":"a"}]}`)
	return serve(t, "auth {\n anonymous = true\n"+gatewaytest.Token("ann", "eng")+"}\n"+teamOf("eng", `"group:eng"`, `
  prompt "billing.review_invoice" {
    name        = "review"
    title       = "Review"
    arguments   = { currency = "EUR" }
    defaults    = { lang = "en" }
  }
  prompt "billing.gone" { title = "nobody has it" }
  prompt "billing.other" { arguments = { b = "there is none" } }
  expose "review" {
    prompts = ["billing.plain"]
    to      = ["*"]
  }
`, p), p), p
}

func TestOverrides_ChangeDefinitionAndArguments(t *testing.T) {
	s, p := serveOverridden(t)
	if got, want := gatewaytest.ReportNames(s.Current()), "unmatched billing.gone, misfit billing.other"; got != want && got != "misfit billing.other, unmatched billing.gone" {
		t.Errorf("reports %q, want %q", got, want)
	}
	for _, c := range []*caller{s.modern("ann"), s.legacy("2025-11-25", "ann")} {
		p.forget()
		list := c.call("prompts/list", "")
		list.want(t, `{"name":"review","x":1.0,"arguments":[{"name":"id","required":true},{"name":"lang","required":false}],"title":"Review"}`)
		upstreamtest.Equal(t, []string{"billing.plain", "review"}, list.Names(t), "names")
		c.call("prompts/get", `{"name":"review","arguments":{"id":"7","extra":"x"}}`).want(t, `"from billing"`)
		c.call("prompts/get", `{"name":"review","arguments":{"lang":"de","id":"7"}}`).want(t, `"from billing"`)
		c.call("prompts/get", `{"name":"billing.plain"}`).want(t, `"from billing"`)
		var got []string
		for _, call := range p.calls("prompts/get") {
			params, _, _ := strings.Cut(call, `,"_meta"`)
			got = append(got, strings.TrimSuffix(params, "}"))
		}
		want := []string{
			`{"name":"review_invoice","arguments":{"id":"7","extra":"x","currency":"EUR","lang":"en"}`,
			`{"name":"review_invoice","arguments":{"lang":"de","id":"7","currency":"EUR"}`, `{"name":"plain"`,
		}
		for i := range got {
			if !strings.HasPrefix(got[i]+"}", strings.TrimSuffix(want[i], "}")) {
				t.Errorf("the upstream received %s, want %s", got[i], want[i])
			}
		}
		c.call("prompts/get", `{"name":"review","arguments":{"id":"7","currency":"USD"}}`).want(t, `-32602`, `"reason":"fixed"`)
		c.call("prompts/get", `{"name":"review"}`).want(t, `-32602`, `"argument":"id"`)
		c.call("completion/complete", `{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"lang","value":"e"},"context":{"arguments":{"id":"7"}}}`).
			want(t, `"from billing"`)
		heard := p.calls("completion/complete")[0]
		for _, part := range []string{`"name":"review_invoice"`, `"context":{"arguments":{"id":"7","currency":"EUR","lang":"en"}}`} {
			if !strings.Contains(heard, part) {
				t.Errorf("the upstream received %s, want %s in it", heard, part)
			}
		}
		for _, params := range []string{
			`{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"currency","value":"e"}}`,
			`{"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"lang","value":"e"},"context":{"arguments":{"currency":"USD"}}}`,
		} {
			c.call("completion/complete", params).want(t, `-32602`, `"reason":"fixed"`)
		}
		upstreamtest.Equal(t, 1, len(p.calls("completion/complete")), "completions at the upstream")
		for _, name := range []string{"billing.review_invoice", "billing.other"} {
			c.call("prompts/get", gatewaytest.GetParams(name)).want(t, `"Unknown prompt: `+name)
		}
	}
}

func TestOverrides_ValueThatBreaksItsSchemaLeavesPromptOut(t *testing.T) {
	p := newPeer("p", `{"name":"a","arguments":[{"name":"n","schema":{"type":"integer"}}]}`,
		`{"name":"b","arguments":[{"name":"n","schema":{"type":"integer"}}]}`)
	s := serve(t, teamOf("eng", "", `
  prompt "p.a" { defaults  = { n = "seven" } }
  prompt "p.b" { arguments = { n = 7 } }
`, p), p)
	s.modern("").wantList("p.b")
	if got := gatewaytest.ReportNames(s.Current()); got != "misfit p.a" || !strings.Contains(s.Current().Reports()[0].Text, `"n" breaks its schema`) {
		t.Errorf("reports %q: %+v", got, s.Current().Reports())
	}
}

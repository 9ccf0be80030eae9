package gateway_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/schema"
)

// getting says what becomes of gets of one prompt.
type getting struct {
	t    testing.TB
	c    *client
	p    *peer
	name string
}

func (g getting) refuse(arguments string, parts ...string) {
	g.t.Helper()
	before := len(g.p.heard("prompts/get"))
	a := g.c.callRaw("prompts/get", `{"name":"`+g.name+`"`+arguments+`}`)
	a.is(g.t, http.StatusOK, append(parts, `"code":-32602`)...)
	conform(g.t, g.c.revision, "prompts/get", a.body)
	if n := len(g.p.heard("prompts/get")); n != before {
		g.t.Errorf("%s: the upstream was asked", arguments)
	}
}

// pass wants the upstream to hear the arguments byte for byte.
func (g getting) pass(arguments string) {
	g.t.Helper()
	g.c.callRaw("prompts/get", `{"name":"`+g.name+`"`+arguments+`}`).is(g.t, http.StatusOK, "from p")
	calls := g.p.heard("prompts/get")
	if len(calls) == 0 {
		g.t.Fatalf("%s: the upstream was not asked", arguments)
	}
	if got := string(calls[len(calls)-1].Params); !strings.Contains(got, arguments) || (arguments == "" && strings.Contains(got, `"arguments"`)) {
		g.t.Errorf("the upstream heard %s, want %s in it", got, arguments)
	}
}

// of returns the same for another prompt of the peer.
func (g getting) of(name string) getting {
	g.name = "p." + name
	return g
}

func TestRequiredArguments(t *testing.T) {
	p := newPeer(t, "p", `{"name":"a","arguments":[{"name":"x","required":true},{"name":"y"},{"name":"z","required":true}]}`, "none")
	s := serve(t, team("eng", "", "", p))
	for _, c := range []*client{s.modern(""), s.legacy("2024-11-05", "")} {
		a := getting{t, c, p, "p.a"}
		a.refuse(``, "Missing required argument: x", `"data":{"argument":"x","reason":"missing"}`)
		a.refuse(`,"arguments":{}`, "Missing required argument: x")
		a.refuse(`,"arguments":{"x":"1"}`, "Missing required argument: z")
		a.refuse(`,"arguments":[]`, "arguments must be an object")
		a.refuse(`,"arguments":null`, "arguments must be an object")
		a.refuse(`,"arguments":{"x":"1","z":"2","y":null}`, "Invalid argument y: it must be a string", `"data":{"argument":"y","reason":"type"}`)
		a.refuse(`,"arguments":{"x":1,"z":"2"}`, "Invalid argument x: it must be a string")
		a.refuse(`,"arguments":{"x":{"a":"b"},"z":"2"}`, "Invalid argument x: it must be a string")
		a.refuse(`,"arguments":{`+many(1001)+`}`, "too many arguments")
		a.pass(`,"arguments":{"z":"","x":"\u0041\/"}`)
		a.pass(`,"arguments":{"undeclared":[1.0,{"a":null}],"z":"","x":"","\u0058":7}`)
		a.of("none").pass(``)
		a.of("none").pass(`,"arguments":{}`)
		a.of("none").pass(`,"arguments":{"undeclared":12345678901234567890}`)

		c.callRaw("prompts/get", `{"name":7}`).is(t, http.StatusOK, `"code":-32602`, "name must be a string")
		c.callRaw("prompts/get", `{}`).is(t, http.StatusOK, `"code":-32602`, "name must be a string")
		c.callRaw("prompts/get", `{"name":"p.b","arguments":[]}`).is(t, http.StatusOK, "Unknown prompt: p.b")
	}
}

// many are so many members of an object.
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

func TestArgumentsWithASchema(t *testing.T) {
	p := newPeer(t, "p", `{"name":"a","arguments":[
		{"name":"n","schema":{"type":"integer","maximum":9007199254740992}},
		{"name":"tags","schema":{"type":"array","items":{"enum":["x","y"]},"maxItems":3}},
		{"name":"old","schema":{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/s","definitions":{"s":{"type":"string","pattern":"^a+$"}}}},
		{"name":"any","required":true,"schema":true},
		{"name":"text","schema":null}]}`)
	s := serve(t, team("eng", "", "", p))
	for _, c := range []*client{s.modern(""), s.legacy("2025-11-25", "")} {
		a := getting{t, c, p, "p.a"}
		a.refuse(``, "Missing required argument: any")
		a.pass(`,"arguments":{"any":null}`)
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

func TestAnswersAboutArgumentsAreShort(t *testing.T) {
	long := strings.Repeat("ü", 5000)
	p := newPeer(t, "p", `{"name":"a","arguments":[{"name":"`+long+`","schema":{"pattern":"^x*$"}}]}`, `{"name":"b","arguments":[{"name":"`+long+`","required":true}]}`)
	s := serve(t, team("eng", "", "", p))
	c := s.modern("")
	for _, params := range []string{`{"name":"p.a","arguments":{"` + long + `":"` + long + `"}}`, `{"name":"p.b"}`} {
		if a := c.callRaw("prompts/get", params); !strings.Contains(a.body, `"code":-32602`) || len(a.body) > 1500 {
			t.Errorf("%d bytes: %.300s", len(a.body), a.body)
		}
	}
}

// lines is a log in memory.
type lines struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func TestSchemasThatCannotBeUsedAreReportedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		schema  string
		refused string // "" where the upstream decides
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
			p := newPeer(t, "p", `{"name":"a","arguments":[{"name":"x","schema":`+test.schema+`}]}`)
			var log lines
			s := beginWith(t, team("eng", "", "", p), gateway.Options{Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(&log, nil))})
			s.settle()
			a := getting{t, s.modern(""), p, "p.a"}
			for _, value := range []string{`"x"`, `7`, `{"a":[]}`} {
				if test.refused == "" {
					a.pass(`,"arguments":{"x":` + value + `}`)
				} else {
					a.refuse(`,"arguments":{"x":`+value+`}`, "Invalid argument x: its schema cannot be used: "+test.refused, `"reason":"unverifiable"`)
				}
			}
			a.pass(`,"arguments":{}`)
			if n := log.count("argument schema cannot be used"); n != 1 {
				t.Errorf("reported %d times", n)
			}
		})
	}
}

func TestAChangedDefinitionHasAnotherSchema(t *testing.T) {
	definition := func(kind string) string {
		return `{"name":"a","arguments":[{"name":"x","schema":{"type":"` + kind + `"}}]}`
	}
	p := newPeer(t, "p", definition("string"))
	s := serve(t, team("eng", "", "", p))
	a := getting{t, s.modern(""), p, "p.a"}
	a.pass(`,"arguments":{"x":"7"}`)
	a.refuse(`,"arguments":{"x":7}`, "want string")
	p.watched().offer(definition("integer"))
	eventually(t, "the new definition is listed", func() bool { return strings.Contains(a.c.call("prompts/list", "").body, "integer") })
	a.pass(`,"arguments":{"x":7}`)
	a.refuse(`,"arguments":{"x":"7"}`, "want integer")
}

func TestWhatIsInvisibleIsNotChecked(t *testing.T) {
	p := newPeer(t, "p", `{"name":"a","arguments":[{"name":"x","required":true,"schema":{"$ref":"https://example.com/"}}]}`)
	s := serve(t, "auth {\n"+token("insider")+token("outsider")+"}\n"+team("eng", `"user:insider"`, "", p))
	s.modern("insider").callRaw("prompts/get", `{"name":"p.a"}`).is(t, http.StatusOK, "Missing required argument")
	for _, arguments := range []string{``, `,"arguments":{"x":7}`, `,"arguments":[]`} {
		s.modern("outsider").callRaw("prompts/get", `{"name":"p.a"`+arguments+`}`).is(t, http.StatusOK, `{"code":-32602,"message":"Unknown prompt: p.a"}`)
	}
}

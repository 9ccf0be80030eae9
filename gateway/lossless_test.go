package gateway_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Generated JSON passes through the gateway in all combinations of the eras, and is compared byte by byte: definitions,
// results and errors on their way down, params on their way up. The members that belong to the gateway are changed in the
// expectation, by code that shares nothing with the gateway's.
func TestLossless_MessagesArriveUnchanged(t *testing.T) {
	t.Parallel()
	for _, up := range []string{"legacy", "modern"} {
		for _, down := range []string{"legacy", "modern"} {
			t.Run(down+" client, "+up+" upstream", func(t *testing.T) {
				ps := newPassage(t, up == "modern", down == "modern")
				ps.list()
				rapid.Check(t, func(t *rapid.T) {
					g, i := &generator{T: t}, rapid.IntRange(0, len(ps.definitions)-1).Draw(t, "prompt")
					ps.get(g, i)
					ps.fail(g, i)
				})
			})
		}
	}
}

// passage is one client and one upstream, with the gateway between them.
type passage struct {
	t           testing.TB
	up, down    bool // which of them are modern
	c           *gatewaytest.Client
	p           *gatewaytest.Peer
	definitions []members
}

func newPassage(t testing.TB, up, down bool) *passage {
	ps := &passage{t: t, up: up, down: down}
	ps.p = gatewaytest.NewPeer(t, "p")
	if up {
		ps.p = gatewaytest.NewModernPeer(t, "p")
	}
	var prompts []string
	for i := range 60 {
		definition := rapid.Custom(func(t *rapid.T) members { return (&generator{T: t}).definition(fmt.Sprintf("a%03d", i)) }).Example()
		ps.definitions = append(ps.definitions, definition)
		prompts = append(prompts, definition.json())
	}
	ps.p.SetPrompts(prompts...)
	s := gatewaytest.Serve(t, "gateway { page_size = 7 }\n"+gatewaytest.Team("eng", "", "", ps.p))
	ps.c = s.Modern("")
	if !down {
		ps.c = s.Legacy(rapid.SampledFrom(gatewaytest.LegacyRevisions).Example(), "")
	}
	return ps
}

func same(t rapid.TB, what, want, got string) {
	t.Helper()
	if want != got {
		t.Fatalf("%s\nwant %s\ngot  %s\n%s", what, want, got, cmp.Diff(want, got))
	}
}

// list compares the definitions on all pages.
func (ps *passage) list() {
	ps.t.Helper()
	var want, got []string
	for i, definition := range ps.definitions {
		want = append(want, definition.with("name", fmt.Sprintf(`"p.a%03d"`, i)).json())
	}
	for params := ""; ; {
		a := ps.c.Call("prompts/list", params)
		var page []json.RawMessage
		if err := json.Unmarshal(a.Result(ps.t, "prompts"), &page); err != nil {
			ps.t.Fatal(err)
		}
		for _, definition := range page {
			got = append(got, string(definition))
		}
		cursor := a.Result(ps.t, "nextCursor")
		if cursor == nil {
			break
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
	upstreamtest.Equal(ps.t, want, got, "definitions")
}

// ask sends a get with exactly these params.
func (ps *passage) ask(i int, params members) gatewaytest.Response {
	ps.t.Helper()
	h := ps.c.Headers
	if ps.down {
		h = gatewaytest.Headers{"Mcp-Protocol-Version", gatewaytest.Latest, "Mcp-Method", "prompts/get", "Mcp-Name", fmt.Sprintf("p.a%03d", i)}
	}
	return gatewaytest.Send(ps.t, http.MethodPost, ps.c.URL, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":`+params.json()+`}`, h)
}

// get compares a result on its way down, and the params on their way up.
func (ps *passage) get(g *generator, i int) {
	g.Helper()
	result := g.result(ps.up)
	said, want := result.json(), ps.resultDown(result).json()
	if !ps.up && !ps.down { // no byte of it belongs to the gateway
		said = append(result, g.known("resultType", g.value(1))).spaced(g)
		want = said
	}
	ps.p.Answer("prompts/get", said)
	params := g.params(i, ps.down)
	a := ps.ask(i, params)
	same(g, "result", `{"jsonrpc":"2.0","id":1,"result":`+want+`}`, a.Body)
	calls := ps.p.Calls("prompts/get")
	if len(calls) == 0 {
		g.Fatalf("the get did not reach the upstream: %s", a.Body)
	}
	same(g, "params", ps.paramsUp(params, fmt.Sprintf(`"a%03d"`, i)).json(), string(calls[len(calls)-1].Params))
}

// fail compares an error on its way down.
func (ps *passage) fail(g *generator, i int) {
	g.Helper()
	failure := g.failure().json()
	ps.p.Answer("prompts/get", "error:"+failure)
	a := ps.ask(i, g.params(i, ps.down))
	same(g, "error", `{"jsonrpc":"2.0","id":1,"error":`+failure+`}`, a.Body)
}

const serverInfo = "io.modelcontextprotocol/serverInfo"

// resultDown returns a result in the form of the client's revision.
func (ps *passage) resultDown(result members) members {
	if !ps.up && !ps.down {
		return result
	}
	if ps.down && !result.has("resultType") {
		result = result.with("resultType", `"complete"`)
	}
	if !ps.down {
		result = result.without("resultType")
	}
	meta := result.object("_meta").without(serverInfo)
	if ps.down {
		meta = meta.with(serverInfo, `{"name":"promptweir","version":"1.2.3"}`)
	}
	switch {
	case len(meta) > 0 || len(result.object("_meta")) == 0 && result.has("_meta"):
		return result.with("_meta", meta.json())
	case result.has("_meta"):
		return result.without("_meta")
	}
	return result
}

// hop are the members of a request's _meta that concern one hop, in the order in which the gateway sends them.
var hop = []string{"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/clientCapabilities"} //nolint:gochecknoglobals // a constant list

// extension is what a client declares of the protocol's extensions, none of which the gateway relays.
const extension = `"extensions":{"example.com/x":{}},`

// paramsUp returns the params in the form of the upstream's revision.
func (ps *passage) paramsUp(params members, name string) members {
	params = params.with("name", name)
	given := params.object("_meta")
	meta := given
	for _, own := range hop {
		meta = meta.without(own)
	}
	if ps.up {
		capabilities := "{}"
		if ps.down {
			capabilities = strings.Replace(given.get(hop[2]), extension, "", 1)
		}
		meta = meta.with(hop[0], `"2026-07-28"`).with(hop[1], `{"name":"promptweir","version":"1.2.3"}`).with(hop[2], capabilities)
	}
	switch {
	case len(meta) > 0 || params.has("_meta") && len(given) == 0:
		return params.with("_meta", meta.json())
	case params.has("_meta"):
		return params.without("_meta")
	}
	return params
}

// members are the members of a JSON object, in order.
type members []jsonMember

type jsonMember struct {
	name string
	// spelled is the name and value the value, both as JSON; inner are the members of a value that was made of some.
	spelled, value string
	inner          members
}

func (m members) json() string {
	parts := make([]string, len(m))
	for i, member := range m {
		parts[i] = member.spelled + ":" + member.value
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (m members) find(name string) *jsonMember {
	for i := range m {
		if m[i].name == name {
			return &m[i]
		}
	}
	return &jsonMember{}
}

func (m members) has(name string) bool       { return m.find(name).spelled != "" }
func (m members) get(name string) string     { return m.find(name).value }
func (m members) object(name string) members { return m.find(name).inner }

func (m members) with(name, value string) members {
	changed := append(members{}, m...)
	if member := changed.find(name); member.spelled != "" {
		member.value = value
		return changed
	}
	return append(changed, jsonMember{name: name, spelled: `"` + name + `"`, value: value})
}

func (m members) without(name string) members {
	var kept members
	for _, member := range m {
		if member.name != name {
			kept = append(kept, member)
		}
	}
	return kept
}

// generator makes JSON that readers and writers tend to change.
type generator struct {
	*rapid.T

	names int
}

// pick returns one of the texts.
func (g *generator) pick(texts ...string) string { return rapid.SampledFrom(texts).Draw(g.T, "text") }

func (g *generator) maybe() bool { return rapid.Bool().Draw(g.T, "maybe") }

func (g *generator) IntN(n int) int { return rapid.IntRange(0, n-1).Draw(g.T, "number") }

func (g *generator) number() string {
	return g.pick("0", "-0", "-0.0", "1.0", "2.50", "1e3", "1E+3", "1e-7", "0.1", "1e400", "-1E-400", "9007199254740993",
		"12345678901234567890", "0.1000000000000000000000001", strconv.FormatInt(rapid.Int64().Draw(g.T, "integer"), 10), fmt.Sprintf("%de%d", g.IntN(100), g.IntN(100)))
}

// text returns a JSON string.
func (g *generator) text() string {
	var b strings.Builder
	b.WriteByte('"')
	for range g.IntN(5) {
		b.WriteString(g.pick("a", "Z", " ", "é", `\u00e9`, `\u00E9`, "😀", `\ud83d\ude00`, "/", `\/`, `\"`, `\\`, `\n`, `\u000a`, `\u0000`, `\u2028`,
			"\u2028", "\u00a0", "\x7f", "<", "&", `\u003c`, "e\u0301", "=?base64?", "data: ", "{", "]", ",", "null"))
	}
	b.WriteByte('"')
	return b.String()
}

func (g *generator) space() string { return g.pick("", "", "", " ", "  ", "\t") }

// value returns any JSON of at most a depth.
func (g *generator) value(depth int) string {
	n := g.IntN(8)
	if depth == 0 {
		n = g.IntN(4)
	}
	switch n {
	case 0:
		return g.pick("null", "true", "false", "{}", "[]", "[ ]", `""`)
	case 1:
		return g.number()
	case 2, 3:
		return g.text()
	case 4, 5:
		var b strings.Builder
		for i := range g.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(g.space() + g.value(depth-1) + g.space())
		}
		return "[" + b.String() + "]"
	}
	return g.unknown(depth, g.IntN(4)).spaced(g)
}

// spaced returns the object with spaces between its tokens.
func (m members) spaced(g *generator) string {
	parts := make([]string, len(m))
	for i, member := range m {
		parts[i] = g.space() + member.spelled + g.space() + ":" + g.space() + member.value + g.space()
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// unknown returns members that no revision knows, with different names.
func (g *generator) unknown(depth, n int) members {
	var made members
	for range n {
		g.names++
		spelled := fmt.Sprintf("%sx%d\"", strings.TrimSuffix(g.text(), `"`), g.names)
		var name string
		if err := json.Unmarshal([]byte(spelled), &name); err != nil {
			panic(err)
		}
		made = append(made, jsonMember{name: name, spelled: spelled, value: g.value(max(depth-1, 0))})
	}
	return made
}

// known returns a member, with or without escapes in its name.
func (g *generator) known(name, value string) jsonMember {
	spelled := `"` + name + `"`
	if g.IntN(4) == 0 {
		spelled = fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
	}
	return jsonMember{name: name, spelled: spelled, value: value}
}

// metadata returns a _meta with unknown members and others.
func (g *generator) metadata(others ...jsonMember) jsonMember {
	inner := g.shuffle(append(g.unknown(2, g.IntN(3)), others...))
	member := g.known("_meta", inner.json())
	member.inner = inner
	return member
}

func (g *generator) shuffle(m members) members { return rapid.Permutation(m).Draw(g.T, "order") }

// object returns all of must, some of may, and unknown members, in any order.
func (g *generator) object(must members, may ...jsonMember) members {
	all := append(g.unknown(3, g.IntN(4)), must...)
	for _, member := range may {
		if g.maybe() {
			all = append(all, member)
		}
	}
	return g.shuffle(all)
}

func (g *generator) list(n int, element func() members) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = g.space() + element().spaced(g)
	}
	return "[" + strings.Join(elements, ",") + "]"
}

func (g *generator) includeContext() jsonMember {
	return g.known("includeContext", g.pick(`"none"`, `"thisServer"`, `"allServers"`, g.value(1)))
}

func (g *generator) definition(name string) members {
	spelled := `"` + name + `"`
	if g.maybe() {
		spelled = `"\u0061` + name[1:] + `"`
	}
	argument := func() members {
		return g.object(members{g.known("name", g.text())},
			g.known("title", g.text()), g.known("description", g.text()), g.known("required", "false"),
			g.known("schema", g.pick(`{ "type" : "string" }`, `{"$ref":"https://example.com/s"}`, g.value(3))))
	}
	icon := func() members {
		return g.object(members{g.known("src", g.text())}, g.known("sizes", `["48x48", "any"]`), g.known("theme", `"dark"`))
	}
	return g.object(members{g.known("name", spelled)},
		g.known("title", g.text()), g.known("description", g.text()),
		g.known("arguments", g.list(g.IntN(3), argument)), g.known("icons", g.list(g.IntN(3), icon)),
		g.includeContext(), g.known("annotations", g.value(2)), g.metadata())
}

func (g *generator) result(modern bool) members {
	message := func() members {
		return g.object(members{g.known("role", g.pick(`"user"`, `"assistant"`, g.text())), g.known("content", g.value(3))})
	}
	must := members{g.known("messages", g.list(g.IntN(4), message))}
	for i := range max(0, g.IntN(8)-5) { // large enough not to be copied
		must = append(must, g.known(fmt.Sprintf("large%d", i), `"`+strings.Repeat(`\n{\"é `, 6_000)+`"`))
	}
	var own []jsonMember
	if modern && g.maybe() {
		must = append(must, g.known("resultType", g.pick(`"complete"`, `"complet\u0065"`)))
	}
	if modern && g.maybe() {
		own = append(own, g.known(serverInfo, `{"name":"peer","version":"1"}`))
	}
	return g.object(must, g.known("description", g.text()), g.includeContext(), g.metadata(own...))
}

// failure returns an error that passes between the eras unchanged: its code is not one of those that MCP reserves.
func (g *generator) failure() members {
	return g.object(members{g.known("code", g.pick("-32001", "-32602", "-32603", "-32601", "-32000", "-2147483648", "0",
		strconv.Itoa(int(rapid.Int32Range(-31999, math.MaxInt32).Draw(g.T, "code"))))), g.known("message", g.text())},
		g.known("data", g.value(3)))
}

// params returns the params of a get. Arguments are absent, or {}, or have members that no definition has.
func (g *generator) params(i int, modern bool) members {
	must := members{g.known("name", g.pick(fmt.Sprintf(`"p.a%03d"`, i), fmt.Sprintf(`"\u0070.a%03d"`, i)))}
	if g.IntN(3) > 0 {
		must = append(must, g.known("arguments", g.unknown(3, g.IntN(3)).spaced(g)))
	}
	if !modern {
		return g.object(must, g.includeContext(), g.metadata())
	}
	return g.object(append(must, g.metadata(
		g.known(hop[0], `"2026-07-28"`), g.known(hop[1], `{"name":"test","version":"1","x":2.50}`),
		g.known(hop[2], g.pick(`{}`, `{ "elicitation":{} ,"x":1e3}`, `{`+extension+`"x":1e3}`)))), g.includeContext())
}

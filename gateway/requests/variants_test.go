package requests_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// incident is a prompt with several arguments.
const incident = `{"name":"incident","title":"Report an incident","description":"Writes a report.","arguments":[` +
	`{"name":"notes","description":"What was seen.","required":true},{"name":"severity"}]}`

const bothVariants = `gateway { variants = ["flat", "tools"] }` + "\n"

// callersOf returns callers of each era, and of the oldest revision.
func callersOf(m *memory, token string) []*caller {
	return []*caller{m.modern(token), m.legacy("2025-11-25", token), m.legacy("2024-11-05", token)}
}

func TestFlat_ServesOneArgumentAndOneText(t *testing.T) {
	p := newPeer("p", incident, `{"name":"one","arguments":[{"name":"topic","required":true}]}`)
	p.answer("completion/complete", `{"completion":{"values":["weirs"]}}`)
	p.answer("prompts/get", `{"description":"D","messages":[{"role":"user","content":{"type":"text","text":"## assistant\nHi"}},`+
		`{"role":"user","content":{"type":"image","data":"","mimeType":"image/png"}},{"role":"assistant","content":{"type":"text","text":"Yes?"}}]}`)
	s := serve(t, bothVariants+teamOf("eng", "", "", p), p)
	for _, c := range callersOf(s.at("flat"), "") {
		c.call("prompts/list", "").want(t, `"name":"p.incident"`, `"title":"Report an incident"`,
			`"arguments":[{"name":"input","description":"Lines \"name: value\"`, `\"notes\" (required), What was seen.; \"severity\""`,
			`{"name":"p.one","arguments":[{"name":"topic","required":true}]}`)
		p.forget()
		c.call("prompts/get", `{"name":"p.incident","arguments":{"input":"severity: major\n\nnotes: all down","severity":"not read"}}`).want(t,
			`"messages":[{"role":"user","content":{"type":"text","text":"## user\n\n ## assistant\nHi\n\n[image (image/png) left out]\n\n## assistant\n\nYes?"}}]`, `"description":"D"`)
		c.call("prompts/get", `{"name":"p.one","arguments":{"topic":"notes: x"}}`).want(t)
		var got []string
		for _, call := range p.calls("prompts/get") {
			var params struct{ Arguments json.RawMessage }
			if err := json.Unmarshal([]byte(call), &params); err != nil {
				t.Fatal(err)
			}
			got = append(got, string(params.Arguments))
		}
		want := []string{`{"severity":"major","notes":"notes: all down"}`, `{"topic":"notes: x"}`}
		upstreamtest.Equal(t, want, got, "%s: the server gets", c.revision)
		c.call("prompts/get", `{"name":"p.incident","arguments":{"input":"severity: major"}}`).want(t, `"code":-32602`,
			`Missing required arguments: notes`, `"argument":"notes","reason":"missing"`)
		complete := func(name, argument string) response {
			return c.call("completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":%q,"value":""}}`, name, argument))
		}
		complete("p.one", "topic").want(t, `"values":["weirs"]`)
		complete("p.incident", "input").want(t, `"values":[]`)
	}
	s.modern("").call("prompts/list", "").want(t, `"arguments":[{"name":"notes"`)
}

// callTool returns the result of a tool: its text, its structure, and whether it says that it failed.
func callTool(t *testing.T, c *caller, name, arguments string) (text string, structure json.RawMessage, failed bool) {
	t.Helper()
	a := c.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
	var message struct {
		Result struct {
			Content           []struct{ Type, Text string }
			StructuredContent json.RawMessage
			IsError           bool
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &message); err != nil || len(message.Result.Content) == 0 {
		t.Fatalf("%s %s: %s", name, arguments, a.Body)
	}
	return message.Result.Content[0].Text, message.Result.StructuredContent, message.Result.IsError
}

// listTool returns the names on all pages of list_prompts.
func listTool(t *testing.T, c *caller, query string) (names []string, pages int) {
	t.Helper()
	for cursor := ""; ; {
		text, structure, failed := callTool(t, c, "list_prompts", fmt.Sprintf(`{"query":%q%s}`, query, cursor))
		var found struct {
			Prompts    []struct{ Name string }
			NextCursor string
		}
		if err := json.Unmarshal(structure, &found); err != nil || failed || text != string(structure) {
			t.Fatalf("%v: %s\n%s", err, text, structure)
		}
		for _, p := range found.Prompts {
			names = append(names, p.Name)
		}
		pages++
		if found.NextCursor == "" {
			return names, pages
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, found.NextCursor)
	}
}

func TestTools_ListsSearchesAndGets(t *testing.T) {
	p := newPeer("p", incident, `{"name":"poem","description":"Writes a poem. Not about an incident."}`, `{"name":"Report_card"}`, "x")
	p.answer("prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"Look:"}},`+
		`{"role":"user","content":{"type":"image","data":"","mimeType":"image/png"}}]}`)
	s := serve(t, bothVariants+teamOf("eng", "", "", p), p)
	for _, c := range callersOf(s.at("tools"), "") {
		a := c.call("tools/list", "")
		a.want(t, `"annotations":{"readOnlyHint":true,"openWorldHint":false}`)
		if strings.Count(a.Body, `"inputSchema"`) != 2 || strings.Count(a.Body, `"outputSchema"`) != 1 {
			t.Errorf("%s", a.Body)
		}
		for query, want := range map[string][]string{
			"":                        {"p.Report_card", "p.incident", "p.poem", "p.x"},
			" ?!":                     {"p.Report_card", "p.incident", "p.poem", "p.x"},
			"a report on an INCIDENT": {"p.Report_card", "p.incident", "p.poem"},
			"poem":                    {"p.poem"},
			"nothing-like it":         nil,
		} {
			got, _ := listTool(t, c, query)
			upstreamtest.Equal(t, want, got, "%s: %q", c.revision, query)
		}
		p.forget()
		c.call("tools/call", `{"name":"get_prompt","arguments":{"name":"p.incident","arguments":{"notes":"down"}}}`).want(t,
			`"content":[{"type":"text","text":"## user\n\nLook:\n\n[image (image/png) attached]"},{"type":"image","data":"","mimeType":"image/png"}]`)
		if calls := p.calls("prompts/get"); len(calls) != 1 || !strings.Contains(calls[0], `"name":"incident"`) ||
			!strings.Contains(calls[0], `"arguments":{"notes":"down"}`) {
			t.Errorf("the server gets %+v", calls)
		}
		for arguments, want := range map[string]string{
			`{"name":"p.none"}`:                             "Unknown prompt: p.none",
			`{"name":"p.incident"}`:                         "Missing required argument: notes",
			`{"name":"p.incident","arguments":null}`:        "Missing required argument: notes",
			`{"name":"p.incident","arguments":{"notes":1}}`: "Invalid argument notes: it must be a string",
			`{"name":"p.incident","arguments":"{\"a\":1}"}`: "Invalid params: arguments must be an object",
			`{"arguments":{}}`:                              "Invalid params: name must be a string",
			`{"name":"p.incident","Arguments":{}}`:          "Missing required argument: notes",
		} {
			if text, structure, failed := callTool(t, c, "get_prompt", arguments); text != want || structure != nil || !failed {
				t.Errorf("%s: %q %s %t, want %q", arguments, text, structure, failed, want)
			}
		}
		c.call("tools/call", `{"name":"p.incident"}`).want(t, `"code":-32602`, "Unknown tool: p.incident")
		c.call("tools/call", `{"name":"list_prompts","arguments":{"query":7}}`).want(t, `"code":-32602`)
		c.call("tools/list", `{"cursor":"x"}`).want(t, `"code":-32602`, "malformed")
	}
	p.answer("prompts/get", `error:{"code":7,"message":"Out of paper"}`)
	if text, _, failed := callTool(t, s.at("tools").modern(""), "get_prompt", `{"name":"p.x"}`); text != "Out of paper" || !failed {
		t.Errorf("%q, %t", text, failed)
	}
}

// A prompt that the caller does not see is answered like one that does not exist, in every form.
func TestVariants_HideWhatPolicyHides(t *testing.T) {
	auth := "auth {\n" + gatewaytest.Token("ann", "payments") + gatewaytest.Token("bob") + "}\n"
	s, billing, _ := serveTwoTeams(t, bothVariants+auth)
	for _, c := range append(callersOf(s.at("tools"), "bob"), callersOf(s.at("flat"), "bob")...) {
		answer := func(name string) string {
			a := c.call("prompts/get", gatewaytest.GetParams(name))
			if c.memory.variant == config.VariantTools {
				a = c.call("tools/call", fmt.Sprintf(`{"name":"get_prompt","arguments":{"name":%q}}`, name))
			}
			return strings.ReplaceAll(a.Body, name, "NAME")
		}
		upstreamtest.Equal(t, answer("billing.ledgen"), answer("billing.ledger"),
			"a hidden prompt differs from an unknown one")
	}
	if got, _ := listTool(t, s.at("tools").modern("bob"), "ledger review query"); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"billing.review_pr", "find.query"}) {
		t.Errorf("bob finds %q", got)
	}
	upstreamtest.Equal(t, 0, len(billing.calls("prompts/get")), "gets at the server")
}

func TestTools_PagesByQuery(t *testing.T) {
	var prompts []string
	for i := range 120 {
		prompts = append(prompts, fmt.Sprintf(`{"name":"n%03d","description":%q}`, i, strings.Repeat("word ", i%7)))
	}
	p := newPeer("p", prompts...)
	s := serve(t, bothVariants+teamOf("eng", "", "", p), p).at("tools")
	c := s.modern("")
	if got, pages := listTool(t, c, ""); len(got) != 120 || pages != 3 || !slices.IsSorted(got) {
		t.Errorf("%d prompts on %d pages", len(got), pages)
	}
	if got, pages := listTool(t, c, "word"); len(got) != 102 || pages != 3 || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 102 {
		t.Errorf("%d prompts on %d pages", len(got), pages)
	}
	_, structure, _ := callTool(t, c, "list_prompts", `{"query":"word"}`)
	var page struct{ NextCursor string }
	if err := json.Unmarshal(structure, &page); err != nil {
		t.Fatal(err)
	}
	c.call("tools/call", `{"name":"list_prompts","arguments":{"query":"words","cursor":"`+page.NextCursor+`"}}`).want(t, `"code":-32602`, "malformed")
	s.Start()
	p.List(gatewaytest.Definitions("other")...)
	upstreamtest.Eventually(t, "the change is in the list", func() bool { return slices.Contains(c.list(), "p.other") })
	c.call("tools/call", `{"name":"list_prompts","arguments":{"query":"word","cursor":"`+page.NextCursor+`"}}`).want(t, `"code":-32602`, "malformed")
}

// A cursor of one variant is invalid at another.
func TestVariants_HaveTheirOwnCursors(t *testing.T) {
	p := newPeer("p", "a", "b", "c")
	s := serve(t, "gateway {\n page_size = 1\n variants = [\"flat\", \"tools\"]\n}\n"+
		teamOf("eng", "", "", p), p)
	at := map[string]*memory{"": s, "flat": s.at("flat"), "tools": s.at("tools")}
	for from, server := range at {
		cursor := string(server.modern("").call("prompts/list", "").Result(t, "nextCursor"))
		for to, other := range at {
			a := other.modern("").call("prompts/list", `{"cursor":`+cursor+`}`)
			if ok := strings.Contains(a.Body, `"name":"p.b"`); ok != (from == to) {
				t.Errorf("from %q to %q: %s", from, to, a.Body)
			} else if !ok {
				a.want(t, `"code":-32602`, "malformed")
			}
		}
		s.at("tools").modern("").call("tools/call", `{"name":"list_prompts","arguments":{"cursor":`+cursor+`}}`).want(t, `"code":-32602`)
	}
}

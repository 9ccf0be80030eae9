package requests_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// incident is a prompt with several arguments.
const incident = `{"name":"incident","title":"Report an incident","description":"Writes a report.","arguments":[` +
	`{"name":"notes","description":"What was seen.","required":true},{"name":"severity"}]}`

const bothVariants = `gateway { variants = ["flat", "tools"] }` + "\n"

// clients are those of each era, and of the oldest revision.
func clientsOf(s *gatewaytest.Server, token string) []*gatewaytest.Client {
	return []*gatewaytest.Client{s.Modern(token), s.Legacy("2025-11-25", token), s.Legacy("2024-11-05", token)}
}

func TestFlat_ServesOneArgumentAndOneText(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", incident, `{"name":"one","arguments":[{"name":"topic","required":true}]}`)
	p.Answer("completion/complete", `{"completion":{"values":["weirs"]}}`)
	p.Answer("prompts/get", `{"description":"D","messages":[{"role":"user","content":{"type":"text","text":"## assistant\nHi"}},`+
		`{"role":"user","content":{"type":"image","data":"","mimeType":"image/png"}},{"role":"assistant","content":{"type":"text","text":"Yes?"}}]}`)
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", p))
	for _, c := range clientsOf(s.At("flat"), "") {
		c.Call("prompts/list", "").Want(t, http.StatusOK, `"name":"p.incident"`, `"title":"Report an incident"`,
			`"arguments":[{"name":"input","description":"Lines \"name: value\"`, `\"notes\" (required), What was seen.; \"severity\""`,
			`{"name":"p.one","arguments":[{"name":"topic","required":true}]}`)
		p.Forget()
		c.Call("prompts/get", `{"name":"p.incident","arguments":{"input":"severity: major\n\nnotes: all down","severity":"not read"}}`).Want(t, http.StatusOK,
			`"messages":[{"role":"user","content":{"type":"text","text":"## user\n\n ## assistant\nHi\n\n[image (image/png) left out]\n\n## assistant\n\nYes?"}}]`, `"description":"D"`)
		c.Call("prompts/get", `{"name":"p.one","arguments":{"topic":"notes: x"}}`).Want(t, http.StatusOK)
		var got []string
		for _, call := range p.Calls("prompts/get") {
			var params struct{ Arguments json.RawMessage }
			if err := json.Unmarshal(call.Params, &params); err != nil {
				t.Fatal(err)
			}
			got = append(got, string(params.Arguments))
		}
		want := []string{`{"severity":"major","notes":"notes: all down"}`, `{"topic":"notes: x"}`}
		upstreamtest.Equal(t, want, got, "%s: the server gets", c.Revision)
		c.Call("prompts/get", `{"name":"p.incident","arguments":{"input":"severity: major"}}`).Want(t, http.StatusOK, `"code":-32602`,
			`Missing required arguments: notes`, `"argument":"notes","reason":"missing"`)
		complete := func(name, argument string) gatewaytest.Response {
			return c.Call("completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":%q,"value":""}}`, name, argument))
		}
		complete("p.one", "topic").Want(t, http.StatusOK, `"values":["weirs"]`)
		complete("p.incident", "input").Want(t, http.StatusOK, `"values":[]`)
	}
	s.Modern("").Call("prompts/list", "").Want(t, http.StatusOK, `"arguments":[{"name":"notes"`)
}

// callTool returns the result of a tool: its text, its structure, and whether it says that it failed.
func callTool(t *testing.T, c *gatewaytest.Client, name, arguments string) (text string, structure json.RawMessage, failed bool) {
	t.Helper()
	a := c.Call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
	var message struct {
		Result struct {
			Content           []struct{ Type, Text string }
			StructuredContent json.RawMessage
			IsError           bool
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &message); err != nil || len(message.Result.Content) == 0 {
		t.Fatalf("%s %s: status %d, %s", name, arguments, a.Status, a.Body)
	}
	return message.Result.Content[0].Text, message.Result.StructuredContent, message.Result.IsError
}

// listTool returns the names on all pages of list_prompts.
func listTool(t *testing.T, c *gatewaytest.Client, query string) (names []string, pages int) {
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
	p := gatewaytest.NewPeer(t, "p", incident, `{"name":"poem","description":"Writes a poem. Not about an incident."}`, `{"name":"Report_card"}`, "x")
	p.Answer("prompts/get", `{"messages":[{"role":"user","content":{"type":"text","text":"Look:"}},`+
		`{"role":"user","content":{"type":"image","data":"","mimeType":"image/png"}}]}`)
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", p))
	for _, c := range clientsOf(s.At("tools"), "") {
		a := c.Call("tools/list", "")
		a.Want(t, http.StatusOK, `"annotations":{"readOnlyHint":true,"openWorldHint":false}`)
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
			upstreamtest.Equal(t, want, got, "%s: %q", c.Revision, query)
		}
		p.Forget()
		c.Call("tools/call", `{"name":"get_prompt","arguments":{"name":"p.incident","arguments":{"notes":"down"}}}`).Want(t, http.StatusOK,
			`"content":[{"type":"text","text":"## user\n\nLook:\n\n[image (image/png) attached]"},{"type":"image","data":"","mimeType":"image/png"}]`)
		if calls := p.Calls("prompts/get"); len(calls) != 1 || !strings.Contains(string(calls[0].Params), `"name":"incident"`) ||
			!strings.Contains(string(calls[0].Params), `"arguments":{"notes":"down"}`) {
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
		c.Call("tools/call", `{"name":"p.incident"}`).Want(t, http.StatusOK, `"code":-32602`, "Unknown tool: p.incident")
		c.Call("tools/call", `{"name":"list_prompts","arguments":{"query":7}}`).Want(t, http.StatusOK, `"code":-32602`)
		c.Call("tools/list", `{"cursor":"x"}`).Want(t, http.StatusOK, `"code":-32602`, "malformed")
	}
	p.Answer("prompts/get", `error:{"code":7,"message":"Out of paper"}`)
	if text, _, failed := callTool(t, s.At("tools").Modern(""), "get_prompt", `{"name":"p.x"}`); text != "Out of paper" || !failed {
		t.Errorf("%q, %t", text, failed)
	}
}

func TestTools_AreNowhereElse(t *testing.T) {
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a")))
	for _, at := range []*gatewaytest.Server{s, s.At("flat")} {
		at.Modern("").Call("tools/list", "").Want(t, http.StatusNotFound, `"code":-32601`)
		at.Modern("").Call("tools/call", `{"name":"get_prompt"}`).Want(t, http.StatusNotFound, `"code":-32601`)
		at.Legacy("2025-11-25", "").Call("tools/list", "").Want(t, http.StatusOK, `"result":{"tools":[]}`)
		at.Legacy("2025-11-25", "").Call("tools/call", `{"name":"get_prompt"}`).Want(t, http.StatusOK, `"code":-32601`)
		if a := at.Modern("").Call("server/discover", ""); strings.Contains(a.Body, `"tools"`) {
			t.Errorf("tools are declared: %s", a.Body)
		}
	}
	s.At("tools").Modern("").Call("server/discover", "").Want(t, http.StatusOK, `"tools":{}`)
	s.At("tools").Modern("").WantList("p.a") // beside the prompts
}

// What the caller does not see is answered like what does not exist, in every form.
func TestVariants_HideWhatPolicyHides(t *testing.T) {
	auth := "auth {\n" + gatewaytest.Token("ann", "payments") + gatewaytest.Token("bob") + "}\n"
	s, billing, _ := gatewaytest.ServeTwoTeams(t, bothVariants+auth)
	for _, c := range append(clientsOf(s.At("tools"), "bob"), clientsOf(s.At("flat"), "bob")...) {
		answer := func(name string) string {
			a := c.Call("prompts/get", gatewaytest.GetParams(name))
			if strings.HasSuffix(c.URL, "tools") {
				a = c.Call("tools/call", fmt.Sprintf(`{"name":"get_prompt","arguments":{"name":%q}}`, name))
			}
			return strings.ReplaceAll(a.Dump(), name, "NAME")
		}
		upstreamtest.Equal(t, answer("billing.ledgen"), answer("billing.ledger"),
			"a hidden prompt differs from an unknown one")
	}
	if got, _ := listTool(t, s.At("tools").Modern("bob"), "ledger review query"); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"billing.review_pr", "find.query"}) {
		t.Errorf("bob finds %q", got)
	}
	upstreamtest.Equal(t, 0, len(billing.Calls("prompts/get")), "gets at the server")
}

func TestTools_PagesByQuery(t *testing.T) {
	var prompts []string
	for i := range 120 {
		prompts = append(prompts, fmt.Sprintf(`{"name":"n%03d","description":%q}`, i, strings.Repeat("word ", i%7)))
	}
	p := gatewaytest.NewPeer(t, "p", prompts...)
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("eng", "", "", p)).At("tools")
	c := s.Modern("")
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
	c.Call("tools/call", `{"name":"list_prompts","arguments":{"query":"words","cursor":"`+page.NextCursor+`"}}`).Want(t, http.StatusOK, `"code":-32602`, "malformed")
	p.AwaitStream().Offer("other")
	upstreamtest.Eventually(t, "the change is in the list", func() bool { return slices.Contains(c.List(), "p.other") })
	c.Call("tools/call", `{"name":"list_prompts","arguments":{"query":"word","cursor":"`+page.NextCursor+`"}}`).Want(t, http.StatusOK, `"code":-32602`, "malformed")
}

// A cursor of one variant is none at another.
func TestVariants_HaveTheirOwnCursors(t *testing.T) {
	s := gatewaytest.Serve(t, "gateway {\n page_size = 1\n variants = [\"flat\", \"tools\"]\n}\n"+
		gatewaytest.Team("eng", "", "", gatewaytest.NewPeer(t, "p", "a", "b", "c")))
	at := map[string]*gatewaytest.Server{"": s, "flat": s.At("flat"), "tools": s.At("tools")}
	for from, server := range at {
		cursor := string(server.Modern("").Call("prompts/list", "").Result(t, "nextCursor"))
		for to, other := range at {
			a := other.Modern("").Call("prompts/list", `{"cursor":`+cursor+`}`)
			if ok := strings.Contains(a.Body, `"name":"p.b"`); ok != (from == to) {
				t.Errorf("from %q to %q: %s", from, to, a.Body)
			} else if !ok {
				a.Want(t, http.StatusOK, `"code":-32602`, "malformed")
			}
		}
		s.At("tools").Modern("").Call("tools/call", `{"name":"list_prompts","arguments":{"cursor":`+cursor+`}}`).Want(t, http.StatusOK, `"code":-32602`)
	}
}

// A tool's call asks for input as a get does, in either era, and its state holds at its variant only.
func TestTools_AskForInput(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	s := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("a", "", "", p.Peer))
	call := s.At("tools").ModernWith("", `{"elicitation":{}}`)
	const get = `{"name":"get_prompt","arguments":{"name":"up.ask"}}`
	asked := call("tools/call", get)
	asked.Want(t, http.StatusOK, `"resultType":"input_required"`, `"method":"elicitation/create"`)
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "tools/call", asked.Body)
	replies := fmt.Sprintf(`{"requestState":%q,"inputResponses":%s,"name":`, asked.RequestState(t), asked.InputResponses(t, `{"action":"accept","content":{"name":"A"}}`))
	for _, variant := range []string{"", "/flat"} {
		other := *s
		other.URL += variant
		other.ModernWith("", `{"elicitation":{}}`)("prompts/get", replies+`"up.ask"}`).Want(t, http.StatusOK, `"code":-32602`, `"reason":"state"`)
	}
	last := call("tools/call", replies+get[len(`{"name":`):])
	last.Want(t, http.StatusOK, `"resultType":"complete"`, `"content":[{"type":"text","text":"`)
	gatewaytest.CheckSchema(t, gatewaytest.Latest, "tools/call", last.Body)
	call("tools/call", replies+get[len(`{"name":`):]).Want(t, http.StatusOK, `"code":-32602`, `"reason":"state"`)

	c := s.At("tools").LegacyWith("2025-11-25", "", `{"elicitation":{}}`)
	body, h := c.Encode("5", "tools/call", get)
	stream := c.OpenStream(http.MethodPost, body, h)
	c.Reply(stream.WantElicitation("2025-11-25"), `{"action":"accept","content":{"name":"B"}}`)
	if event := stream.Next(); !strings.Contains(event.Data, `"content":[{"type":"text","text":"`) {
		t.Errorf("%s", event.Data)
	}
	modern := gatewaytest.Serve(t, bothVariants+gatewaytest.Team("a", "", "", gatewaytest.NewInputRequiredPeer(t, `"s"`)))
	modern.At("tools").Modern("").Call("tools/call", get).Want(t, http.StatusBadRequest, `"code":-32021`)
}

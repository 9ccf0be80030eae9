package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// linkPeer starts a peer whose prompt "p" links to some URIs, in messages with odd spelling, and which reads each URI that
// begins with "memo:" as a text with its own name, beside a second content.
func linkPeer(t *testing.T, name string, uris ...string) *gatewaytest.Peer {
	t.Helper()
	p := gatewaytest.NewPeer(t, name, "p", "debug")
	p.Settings = `resources = "linked"`
	p.Declare(`{"prompts":{"listChanged":true},"resources":{}}`)
	p.Answer("prompts/get", linkResult(uris...))
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method != "resources/read" {
			return false
		}
		var params struct{ URI string }
		if err := json.Unmarshal(call.Params, &params); err != nil {
			t.Error(err)
		}
		answer := `error:{"code":-32002,"message":"none: ` + params.URI + `","data":{"uri":"` + params.URI + `"}}`
		if strings.HasPrefix(params.URI, "memo:") {
			answer = fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"text/markdown","text":"%s of %s"}, {"uri" : "memo:part/b", "text":"b"}]}`, params.URI, params.URI, name)
		}
		p.Respond(w, call, answer)
		return true
	})
	return p
}

func linkResult(uris ...string) string {
	var messages []string
	for _, uri := range uris {
		messages = append(messages, fmt.Sprintf(`{ "role":"user" ,"content" : {"uri" :%q,"annotations":{"priority":0.50}, "type":"resource\u005flink","name":"a\/b","_meta":{"uri":%[1]q}}}`, uri))
	}
	return `{"description":"memo:x", "messages":[` + strings.Join(messages, " , ") + `] }`
}

var sealedLink = regexp.MustCompile(`promptweir://[^"]*`)

// links gets a prompt and returns the sealed links in its result.
func links(t *testing.T, c *gatewaytest.Client, prompt string) []string {
	t.Helper()
	r := c.CallUnchecked("prompts/get", gatewaytest.GetParams(prompt)) // revisions before 2025-06-18 have no links
	r.Want(t, http.StatusOK, `"messages"`)
	return sealedLink.FindAllString(r.Body, -1)
}

// link returns the only link of a prompt.
func link(t *testing.T, c *gatewaytest.Client, prompt string) string {
	t.Helper()
	found := links(t, c, prompt)
	if len(found) != 1 {
		t.Fatalf("%s has the links %q", prompt, found)
	}
	return found[0]
}

// wantUnknown fails the test unless a link is answered byte for byte like a URI that nobody has.
func wantUnknown(t *testing.T, c *gatewaytest.Client, uri string) {
	t.Helper()
	const nobodys = "memo:none"
	got, none := c.Call("resources/read", uriParams(uri)), c.Call("resources/read", uriParams(nobodys))
	quoted := strings.Trim(string(must(json.Marshal(uri))), `"`)
	if got.Status != none.Status || strings.ReplaceAll(got.Body, quoted, nobodys) != none.Body || !strings.Contains(got.Body, `"error"`) {
		t.Errorf("%s at %s: %d %s\nwant as %d %s", uri, c.Revision, got.Status, got.Body, none.Status, none.Body)
	}
	none.Want(t, http.StatusOK, map[bool]string{true: `"code":-32602`, false: `"code":-32002`}[c.Revision == gatewaytest.Latest])
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// Two servers have equal URIs; a client reads each at any replica, in any revision, and gets the same bytes again.
func TestLinks_AreReadAtTheServerThatSentThem(t *testing.T) {
	const uri = "memo:notes/a%20b.md?x=1#y"
	billing, search := linkPeer(t, "billing", uri), linkPeer(t, "search", uri)
	text := "gateway { %CLUSTER% }\nauth {\n" + gatewaytest.Token("ann") + "}\n" + gatewaytest.Team("eng", `"user:ann"`, "", billing, search)
	replicas := serveReplicas(t, clustertest.Start(t), 3, text)
	sealed := map[string]string{}
	for turn, revision := range append(gatewaytest.LegacyRevisions, gatewaytest.Latest) {
		for _, p := range []*gatewaytest.Peer{billing, search} {
			for i, s := range replicas {
				c, elsewhere := clientOf(s, revision), clientOf(replicas[(i+turn)%3], revision)
				own := link(t, c, p.Name+".p")
				if first := sealed[p.Name]; first != "" && first != own {
					t.Errorf("%s is sealed as %s and %s", p.Name, first, own)
				}
				sealed[p.Name] = own
				if !strings.HasPrefix(own, "promptweir://"+p.Name+"/") || !strings.HasSuffix(own, "/a%20b.md") {
					t.Errorf("the link is %s", own)
				}
				got := elsewhere.Call("resources/read", uriParams(own))
				got.Want(t, http.StatusOK, `{"uri":"`+own+`","mimeType":"text/markdown","text":"`+uri+" of "+p.Name+`"}`)
				also := sealedLink.FindAllString(got.Body, -1)
				if len(also) != 2 || !strings.HasSuffix(also[1], "/b") {
					t.Fatalf("the answer has the links %q", also)
				}
				elsewhere.Call("resources/read", uriParams(also[1])).Want(t, http.StatusOK, `{"uri":"`+also[1]+`","mimeType":"text/markdown","text":"memo:part/b of `+p.Name)
			}
		}
	}
	if sealed["billing"] == sealed["search"] {
		t.Error("both have the same link")
	}
	replicas[0].Modern("ann").Call("resources/read", uriParams(sealed["billing"])).Want(t, http.StatusOK, `"ttlMs":0`, `"cacheScope":"private"`)
}

func clientOf(s *gatewaytest.Server, revision string) *gatewaytest.Client {
	if revision == gatewaytest.Latest {
		return s.Modern("ann")
	}
	return s.Legacy(revision, "ann")
}

// Nothing but the uri of a link changes.
func TestLinks_LeaveEveryOtherByte(t *testing.T) {
	long := "memo:" + strings.Repeat("x", 1000)
	uris := []string{"memo:a", "http://h/a", "HTTPS://h/a", "ui://w", "skill://s/SKILL.md", long, "file:///d/", "no uri", "memo:" + strings.Repeat("y", 200)}
	p := linkPeer(t, "b", uris...)
	s, log := gatewaytest.ServeLogged(t, gatewaytest.Team("b", "", "", p))
	r := s.Legacy("2025-11-25", "").Call("prompts/get", gatewaytest.GetParams("b.p"))
	got, found := strings.TrimSuffix(strings.TrimPrefix(r.Body, `{"jsonrpc":"2.0","id":1,"result":`), "}"), sealedLink.FindAllString(r.Body, -1)
	if len(found) != 4 || !strings.HasSuffix(found[1], "/resource") || !strings.HasSuffix(found[2], "/no%20uri") || !strings.HasSuffix(found[3], "/resource") {
		t.Fatalf("links: %q", found)
	}
	for i, own := range []string{"memo:a", "file:///d/", "no uri", uris[8]} {
		got = strings.Replace(got, found[i], own, 1)
	}
	upstreamtest.Equal(t, linkResult(uris...), got, "links")
	if want := `msg="links left as they are: they are too long or too many" upstream=b prompt=b.p links=1`; !strings.Contains(log.String(), want) {
		t.Errorf("no %s in %s", want, log)
	}
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprint("memo:", i)
	}
	p.Answer("prompts/get", linkResult(many...))
	upstreamtest.Equal(t, 256, len(links(t, s.Modern(""), "b.p")), "sealed links")
}

// A link that is forged or foreign, or that policy or the configuration took back, is none.
func TestLinks_OfOthersAndOfBeforeAreUnknown(t *testing.T) {
	p, off := linkPeer(t, "b", "memo:a.md"), gatewaytest.NewPeer(t, "off", "p")
	off.Answer("prompts/get", linkResult("memo:a.md"))
	const key, older, newer = `gateway { cursor_keys = ["%KEY%"] }`, `gateway { cursor_keys = [NEWER, "%KEY%"] }`, `gateway { cursor_keys = [NEWER] }`
	text := func(keys, more string) string {
		keys = strings.ReplaceAll(keys, "NEWER", `"`+strings.Repeat("QUJD", 10)+`QUM="`)
		return strings.ReplaceAll(keys, "%KEY%", strings.Repeat("QUJD", 10)+"QUI=") + "\nauth {\n anonymous = true\n" + gatewaytest.Token("ann") + gatewaytest.Token("bob") + "}\n" +
			gatewaytest.Team("eng", `"user:ann", "user:bob"`, more, p, off)
	}
	s := gatewaytest.ServeReloadable(t, text(key, ""), gateway.Options{})
	s.MustReload(text(key, ""))
	s.AwaitUpstreams()
	ann := s.Modern("ann")
	if own := links(t, ann, "off.p"); len(own) > 0 {
		t.Errorf("links of an upstream that has them off: %q", own)
	}
	own := link(t, ann, "b.p")
	explained := fmt.Sprint(s.Explain(policy.Principal{Subject: "user:ann"}, "b.p"))
	if want := "whoever sees it can read what its results link to"; !strings.Contains(explained, want) {
		t.Errorf("no %q in %s", want, explained)
	}
	token := strings.Split(own, "/")[3]
	cursor := s.Snapshot().Sealer.SealCursor("prompts/list", "user:ann", "b.p")
	box := s.Snapshot().Sealer.For("other").Seal([]byte("x"))
	ann.Call("resources/read", uriParams(own)).Want(t, http.StatusOK, "memo:a.md of b")
	asked := len(p.Calls("resources/read"))
	eachClient := func(check func(c *gatewaytest.Client)) {
		check(s.Modern("ann"))
		check(s.Legacy("2025-11-25", "ann"))
		check(s.Legacy("2024-11-05", "ann"))
	}
	eachClient(func(c *gatewaytest.Client) {
		for _, bad := range []string{
			"promptweir://", "promptweir://b", "promptweir://b/", "promptweir://b//a.md", "promptweir:///" + token + "/a.md", "PROMPTWEIR" + own[len("promptweir"):],
			own + "/", own + "?", own + "#", own + "x", own[:len(own)-1], strings.Replace(own, "//b/", "//c/", 1), strings.Replace(own, "//b/", "//b/../b/", 1),
			strings.Replace(own, "a.md", "a%2Emd", 1), strings.Replace(own, token, token+"A", 1), strings.Replace(own, token, token[:20]+"A"+token[21:], 1),
			strings.Replace(own, token, cursor, 1), strings.Replace(own, token, box, 1), "promptweir://b/" + strings.Repeat("A", 2000) + "/a.md", "memo:a.md",
		} {
			wantUnknown(t, c, bad)
		}
	})
	wantUnknown(t, s.Modern("bob"), own)
	wantUnknown(t, s.Modern(""), own)
	wantUnknown(t, s.Legacy("2025-11-25", "bob"), own)
	for _, taken := range []string{`hide "h" { prompts = ["b.p"] }`, "prompt \"b.p\" {\n name = \"other\"\n}"} {
		s.MustReload(text(key, taken))
		eachClient(func(c *gatewaytest.Client) { wantUnknown(t, c, own) })
	}
	p.Settings = ""
	s.MustReload(text(key, ""))
	upstreamtest.Equal(t, http.StatusNotFound, s.Modern("ann").CallUnchecked("resources/read", uriParams(own)).Status, "status without links")
	p.Settings = `resources = "linked"`
	s.MustReload(text(older, ""))
	upstreamtest.Equal(t, asked, len(p.Calls("resources/read")), "requests that reached the server")
	// An older key opens the link still, which keeps its bytes; a new one ends it.
	s.Modern("ann").Call("resources/read", uriParams(own)).Want(t, http.StatusOK, `{"uri":"`+own+`","mimeType"`)
	if again := link(t, s.Modern("ann"), "b.p"); again == own {
		t.Error("it is sealed with the older key")
	}
	s.MustReload(text(newer, ""))
	wantUnknown(t, s.Modern("ann"), own)
}

// Reads pass what a get passes: limits, screens, bounds of messages and the audit log.
func TestLinks_AreReadLikeAGet(t *testing.T) {
	p := linkPeer(t, "b", "memo:a", "file:///none", "memo:evil", "memo:"+strings.Repeat("z", 500))
	p.Settings += "\nmax_message = 4096"
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	text := auditedConfig(t, path, "required = true\narguments = \"values\"", p) + "team \"x\" {\n}\n"
	text = strings.Replace(text, "expose \"reviews\"", "screen \"s\" {\n patterns = [\"evil of\"]\n content = [\"text\", \"resource_link\"]\n}\nlimit {\n rate = 0.001\n burst = 7\n}\nexpose \"reviews\"", 1)
	s, log := serveAudited(t, text)
	c := s.Modern("ann")
	own := links(t, c, "b.p")
	read := func(i int) gatewaytest.Response { return c.Call("resources/read", uriParams(own[i])) }
	read(0).Want(t, http.StatusOK, "memo:a of b")
	wantUnknown(t, c, own[1])
	read(2).Want(t, http.StatusOK, `"reason":"screened"`, `"/contents/0/text"`)
	p.Intercept(nil)
	p.Answer("resources/read", `{"contents":[{"uri":"memo:a","blob":"QUJD"}]}`)
	read(0).Want(t, http.StatusOK, `"reason":"screened"`, `"check":"content"`, `"at":"/contents/0"`)
	p.Answer("resources/read", `{"contents":[{"uri":"memo:a","text":"`+strings.Repeat("x", 5000)+`"}]}`)
	read(0).Want(t, http.StatusOK, `"reason":"bad_response"`)
	p.Answer("resources/read", `{"content":[]}`)
	read(0).Want(t, http.StatusOK, `"reason":"bad_response"`)
	read(0).Want(t, http.StatusOK, `"reason":"rate_limited"`)
	hidden := s.Snapshot().Sealer.SealLink("user:ann", seal.Link{Owner: "b", Prompt: "b.debug", URI: "memo:a"})
	wantUnknown(t, c, "promptweir://b/"+hidden+"/a")
	wantUnknown(t, s.Modern("bob"), own[0])
	log.Close()
	lines := auditLines(t, path)
	const about = `{"event":"get","method":"resources/read","subject":"user:ann","groups":["group:payments"],"prompt":"b.p","upstream":"b","team":"payments",` +
		`"rule":"team \"payments\"","place":":18","arguments":["uri"],"argument_values":{"uri":"memo:a"},"outcome":"ok"}`
	upstreamtest.Equal(t, about, lines[1], "the audit line")
	var outcomes []string
	for _, line := range lines {
		var of struct{ Prompt, Outcome, Reason string }
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, strings.Join([]string{of.Prompt, of.Outcome, of.Reason}, " "))
	}
	want := []string{
		"b.p ok ", "b.p ok ", "b.p refused ", "b.p refused screened", "b.p refused screened", "b.p failed bad_response", "b.p failed bad_response",
		"b.debug denied ", own[0] + " unknown ",
	}
	upstreamtest.Equal(t, want, outcomes, "outcomes")
}

// A legacy server asks in the middle of a read; its modern client replies at another replica, and a legacy one at once.
func TestLinks_ReadsAreParked(t *testing.T) {
	p := gatewaytest.NewRequestingPeer(t, gatewaytest.FormElicitation)
	p.Settings = `resources = "linked"`
	replicas := serveForwarding(t, 2, gatewaytest.Team("a", "", "", p.Peer))
	sealer := replicas[0].Snapshot().Sealer
	anybody := policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true}
	own := "promptweir://up/" + sealer.SealLink(anybody.Key(), seal.Link{Owner: "up", Prompt: "up.ask", URI: "memo:asked"}) + "/asked"
	first := replicas[0].ModernWith("", `{"elicitation":{}}`)("resources/read", uriParams(own))
	first.Want(t, http.StatusOK, `"resultType":"input_required"`, `"message":"Who?"`)
	retry := fmt.Sprintf(`{"uri":%q,"requestState":%q,"inputResponses":%s}`, own, first.RequestState(t), first.InputResponses(t, `{"action":"accept","content":{"name":"x"}}`))
	replicas[1].ModernWith("", `{"elicitation":{}}`)("resources/read", retry).Want(t, http.StatusOK, `"uri":"`+own+`"`, `{\"name\":\"x\"}`)
	c := replicas[1].LegacyWith("2025-06-18", "", `{"elicitation":{}}`)
	body, h := c.Encode("7", "resources/read", uriParams(own))
	asked := c.OpenStream(http.MethodPost, body, h)
	c.Reply(asked.WantElicitation("2025-06-18"), `{"action":"decline"}`)
	if data := asked.Next().Data; !strings.Contains(data, `"uri":"`+own+`"`) || !strings.Contains(data, "decline") {
		t.Error(data)
	}
}

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/examples/bench/internal/load"
	"github.com/promptweir/promptweir/upstream/wire"
)

// benchmark is one case. The last contestant that set returns is the baseline of the ratios.
type benchmark struct {
	name        string
	connections int
	set         func(context.Context, *stage) ([]contestant, error)
}

const usual = 32 // connections

func cases() []benchmark {
	all := []benchmark{
		{"get 0.3 KB, legacy", usual, getCase(getting{withSDK: true, withDirect: true}, "-legacy")},
		{"get 0.3 KB, legacy, answered by SSE", usual, getCase(getting{}, "-legacy", "-sse")},
		{"get 0.3 KB, 2026-07-28", usual, getCase(getting{modern: true})},
		{"get 0.3 KB, 2026-07-28 client, legacy upstream", usual, getCase(getting{modern: true, unlike: true}, "-legacy")},
		{"get 10 KB, legacy", usual, getCase(getting{}, "-legacy", "-size", "10000")},
		{"get 10 KB, legacy, answered by SSE", usual, getCase(getting{}, "-legacy", "-sse", "-size", "10000")},
		{"get 10 KB, 2026-07-28", usual, getCase(getting{modern: true}, "-size", "10000")},
		{"get 1 MB, legacy", usual, getCase(getting{}, "-legacy", "-size", "1000000")},
		{"get 1 MB, legacy, answered by SSE", usual, getCase(getting{}, "-legacy", "-sse", "-size", "1000000")},
		{"get 1 MB, 2026-07-28", usual, getCase(getting{modern: true}, "-size", "1000000")},
		{"get 0.3 KB, upstream over TLS, HTTP/2", usual, getCase(getting{http: "2"}, "-legacy")},
		{"get 0.3 KB, upstream over TLS, HTTP/1.1", usual, getCase(getting{http: "1.1"}, "-legacy")},
		{"get 0.3 KB, stdio or HTTP upstream", usual, stdioCase("-legacy")},
		{"get 10 KB, stdio or HTTP upstream", usual, stdioCase("-legacy", "-size", "10000")},
		{"get 0.3 KB from files or an HTTP upstream, legacy", usual, filesCase(300, false)},
		{"get 0.3 KB from files or an HTTP upstream, 2026-07-28", usual, filesCase(300, true)},
		{"get 10 KB from files or an HTTP upstream, legacy", usual, filesCase(10_000, false)},
		{"get 0.3 KB, legacy", 256, getCase(getting{}, "-legacy")},
		{"get 0.3 KB, legacy", 2000, getCase(getting{}, "-legacy")},
		{"get, upstream takes 20 ms", usual, getCase(getting{directLast: true}, "-legacy", "-delay", "20ms")},
		{"get, upstream takes 20 ms", 128, getCase(getting{directLast: true}, "-legacy", "-delay", "20ms")},
		{"get, upstream takes 20 ms", 2000, getCase(getting{}, "-legacy", "-delay", "20ms")},
		{"get with identity and 1000 rules", usual, policyCase(wire.PromptsGet, `"name":"up.p00001"`, someText)},
		{"list of 100 with identity and 1000 rules", usual, policyCase(wire.PromptsList, "", `p00099"`)},
		{"completion, legacy", usual, completionCase},
		{"initialize", usual, initializeCase},
	}
	for _, prompts := range []int{10, 100, 1000} {
		all = append(all, benchmark{fmt.Sprintf("list of %d on a page", prompts), usual, listCase(prompts)})
	}
	return append(all,
		benchmark{"page of 100 from 10 000", usual, pagesCase(1)},
		benchmark{"page of 100 from 10 000, 100 audiences", usual, pagesCase(100)},
	)
}

// getting is a variant of prompts/get.
type getting struct {
	modern              bool // the client speaks 2026-07-28
	unlike              bool // the upstream speaks the other era than the client, which a plain proxy cannot translate
	withSDK, withDirect bool
	directLast          bool // the baseline is the upstream with nothing in front of it
	// http is the version of HTTP that the upstream speaks over TLS; empty means no TLS.
	http string
}

const someText = `"messages":[{`

func getCase(g getting, upstreamArgs ...string) func(context.Context, *stage) ([]contestant, error) {
	return func(ctx context.Context, st *stage) ([]contestant, error) {
		certificate := ""
		if g.http != "" {
			var err error
			if certificate, err = st.file("certificate.pem", nil); err != nil {
				return nil, err
			}
		}
		up, err := st.reference(ctx, slices.Concat([]string{"upstream", "-tls", certificate, "-http", g.http}, upstreamArgs)...)
		if err != nil {
			return nil, err
		}
		gateway, err := st.gateway(ctx, settingsOf{upstream: at(up, certificate), pageSize: 100})
		if err != nil {
			return nil, err
		}
		proxy, err := st.reference(ctx, "proxy", "-tls", certificate, up.endpoint)
		if err != nil {
			return nil, err
		}
		all := entrants{{"promptweir", gateway, "up.p00001", g.modern}}
		if g.withSDK {
			sdk, err := st.reference(ctx, "sdk", up.endpoint)
			if err != nil {
				return nil, err
			}
			all = append(all, entrant{"Go SDK gateway", sdk, "p00001", g.modern})
		}
		modern := g.modern != g.unlike
		if g.withDirect {
			all = append(all, entrant{"upstream itself", up, "p00001", modern})
		}
		all = append(all, entrant{"ReverseProxy", proxy, "p00001", modern})
		if g.directLast {
			all = append(all, entrant{"upstream itself", up, "p00001", modern})
		}
		return all.ready(ctx, wire.PromptsGet, func(e entrant) string { return fmt.Sprintf(`"name":%q`, e.prompt) }, someText)
	}
}

// at returns the attributes that say where an upstream is. Certificate is the file of its certificate; "" means no TLS.
func at(up program, certificate string) string {
	text := fmt.Sprintf("url = %q", up.endpoint)
	if certificate != "" {
		text += fmt.Sprintf("\n    tls { ca_file = %q }", certificate)
	}
	return text
}

// entrant is a program that becomes a contestant once a client is connected to it.
type entrant struct {
	name   string
	p      program
	prompt string
	modern bool
}

type entrants []entrant

// ready connects to all programs and prepares their requests.
func (all entrants) ready(ctx context.Context, method string, params func(entrant) string, want string) ([]contestant, error) {
	var contestants []contestant
	for _, e := range all {
		c, err := connect(ctx, e.p, e.modern, "")
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", e.name, err, e.p.Log())
		}
		contestants = append(contestants, contestant{e.name, e.p.Process, load.Request{
			Address: e.p.address(), Want: want, Raw: c.each(method, params(e)),
		}})
	}
	return contestants, nil
}

// stdioCase compares an upstream that is a child process with the same upstream over HTTP.
func stdioCase(upstreamArgs ...string) func(context.Context, *stage) ([]contestant, error) {
	return func(ctx context.Context, st *stage) ([]contestant, error) {
		args := append([]string{"upstream"}, upstreamArgs...)
		up, err := st.reference(ctx, args...)
		if err != nil {
			return nil, err
		}
		program, err := filepath.Abs(filepath.Join(st.bin, "reference"))
		if err != nil {
			return nil, err
		}
		command := append(append([]string{program}, args...), "-stdio")
		var over entrants
		for _, one := range []struct{ name, upstream string }{
			{"promptweir, stdio", `command = ["` + strings.Join(command, `", "`) + `"]`},
			{"promptweir, HTTP", at(up, "")},
		} {
			gateway, err := st.gateway(ctx, settingsOf{upstream: one.upstream, pageSize: 100})
			if err != nil {
				return nil, err
			}
			over = append(over, entrant{one.name, gateway, "up.p00001", false})
		}
		return over.ready(ctx, wire.PromptsGet, func(e entrant) string { return fmt.Sprintf(`"name":%q`, e.prompt) }, someText)
	}
}

// filesCase compares a prompt from a file with the same text from an upstream over HTTP.
func filesCase(size int, modern bool) func(context.Context, *stage) ([]contestant, error) {
	return func(ctx context.Context, st *stage) ([]contestant, error) {
		args := []string{"upstream", "-size", strconv.Itoa(size)}
		if !modern {
			args = append(args, "-legacy")
		}
		up, err := st.reference(ctx, args...)
		if err != nil {
			return nil, err
		}
		const head = "---\ndescription: A prompt\narguments:\n  - name: code\n    description: The code to review\n---\n"
		text := strings.Repeat("All work and no play makes a dull prompt. ", size/42+1)[:size]
		fromFiles, err := st.gateway(ctx, settingsOf{pageSize: 100, prompts: map[string]string{"p00001.md": head + text + "{{code}}\n"}})
		if err != nil {
			return nil, err
		}
		overHTTP, err := st.gateway(ctx, settingsOf{upstream: at(up, ""), pageSize: 100})
		if err != nil {
			return nil, err
		}
		return entrants{{"promptweir, files", fromFiles, "up.p00001", modern}, {"promptweir, HTTP", overHTTP, "up.p00001", modern}}.ready(ctx, wire.PromptsGet,
			func(e entrant) string { return fmt.Sprintf(`"name":%q,"arguments":{"code":"x := 1"}`, e.prompt) }, someText)
	}
}

// policyCase compares callers with a token and with a JWT under a thousand rules with anonymous ones under none.
func policyCase(method, params, want string) func(context.Context, *stage) ([]contestant, error) {
	return func(ctx context.Context, st *stage) ([]contestant, error) {
		up, err := st.reference(ctx, "upstream", "-legacy", "-prompts", "100")
		if err != nil {
			return nil, err
		}
		issuer, err := st.newIssuer(ctx, map[string]any{"sub": "member", "groups": []string{"g1", "g2"}})
		if err != nil {
			return nil, err
		}
		var contestants []contestant
		for _, one := range []struct {
			name, token string
			settings    settingsOf
		}{
			{"promptweir, token and rules", "member", settingsOf{tokens: []string{"member"}, more: thousandRules()}},
			{"promptweir, JWT and rules", issuer.token, settingsOf{issuer: issuer.url, more: thousandRules()}},
			{"promptweir, anonymous", "", settingsOf{}},
		} {
			one.settings.upstream, one.settings.pageSize = at(up, ""), 100
			gateway, err := st.gateway(ctx, one.settings)
			if err != nil {
				return nil, err
			}
			c, err := connect(ctx, gateway, false, one.token)
			if err != nil {
				return nil, err
			}
			contestants = append(contestants, contestant{one.name, gateway.Process, load.Request{
				Address: gateway.address(), Want: want, Raw: c.each(method, params),
			}})
		}
		return contestants, nil
	}
}

// thousandRules are rules of a team that match none of the prompts.
func thousandRules() string {
	var rules strings.Builder
	for i := range 500 {
		fmt.Fprintf(&rules, "expose \"e%d\" {\n prompts = [\"up.x%d_*\"]\n to = [\"group:g%d\"]\n}\nhide \"h%d\" {\n prompts = [\"up.y%d_*\"]\n}\n", i, i, i, i, i)
	}
	return rules.String()
}

func completionCase(ctx context.Context, st *stage) ([]contestant, error) {
	return besideProxy(ctx, st, wire.Complete, func(e entrant) string {
		return fmt.Sprintf(`"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"code","value":"go"}`, e.prompt)
	}, `"gofumpt"`)
}

func initializeCase(ctx context.Context, st *stage) ([]contestant, error) {
	return besideProxy(ctx, st, wire.Initialize, func(entrant) string {
		return `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}`
	}, `"serverInfo"`)
}

func besideProxy(ctx context.Context, st *stage, method string, params func(entrant) string, want string) ([]contestant, error) {
	up, err := st.reference(ctx, "upstream", "-legacy")
	if err != nil {
		return nil, err
	}
	gateway, err := st.gateway(ctx, settingsOf{upstream: at(up, ""), pageSize: 100})
	if err != nil {
		return nil, err
	}
	proxy, err := st.reference(ctx, "proxy", up.endpoint)
	if err != nil {
		return nil, err
	}
	return entrants{{"promptweir", gateway, "up.p00001", false}, {"ReverseProxy", proxy, "p00001", false}}.ready(ctx, method, params, want)
}

// listCase compares one page of so many prompts with a handler that writes the same bytes.
func listCase(prompts int) func(context.Context, *stage) ([]contestant, error) {
	return func(ctx context.Context, st *stage) ([]contestant, error) {
		up, err := st.reference(ctx, "upstream", "-legacy", "-prompts", strconv.Itoa(prompts))
		if err != nil {
			return nil, err
		}
		gateway, err := st.gateway(ctx, settingsOf{upstream: at(up, ""), pageSize: prompts})
		if err != nil {
			return nil, err
		}
		c, err := connect(ctx, gateway, false, "")
		if err != nil {
			return nil, err
		}
		_, text, err := c.ask(ctx, wire.PromptsList, "")
		if err != nil {
			return nil, err
		}
		file, err := st.file("page.json", text)
		if err != nil {
			return nil, err
		}
		page, err := st.reference(ctx, "page", file)
		if err != nil {
			return nil, err
		}
		all := entrants{{"promptweir", gateway, "", false}}
		if prompts == 1000 {
			sdk, err := st.reference(ctx, "sdk", up.endpoint)
			if err != nil {
				return nil, err
			}
			all = append(all, entrant{"Go SDK gateway", sdk, "", false})
		}
		contestants, err := all.ready(ctx, wire.PromptsList, func(entrant) string { return "" }, fmt.Sprintf(`p%05d"`, prompts-1))
		if err != nil {
			return nil, err
		}
		return append(contestants, bare(page, contestants[0].request)), nil
	}
}

// bare is a handler that writes a page. It gets the same requests as the gateway, with the session header, which takes time to
// read.
func bare(page program, request load.Request) contestant {
	request.Address = page.address()
	return contestant{"bare handler", page.Process, request}
}

// pagesCase compares a walk over all pages of a long list, by several audiences, with a handler that writes one page.
func pagesCase(audiences int) func(context.Context, *stage) ([]contestant, error) {
	return func(ctx context.Context, st *stage) ([]contestant, error) {
		up, err := st.reference(ctx, "upstream", "-legacy", "-prompts", "10000")
		if err != nil {
			return nil, err
		}
		var tokens []string
		var rules strings.Builder
		for i := range audiences {
			tokens = append(tokens, fmt.Sprintf("member%d", i))
			fmt.Fprintf(&rules, "expose \"e%d\" {\n prompts = [\"*\"]\n to = [\"group:of-member%d\"]\n}\n", i, i)
		}
		gateway, err := st.gateway(ctx, settingsOf{upstream: at(up, ""), pageSize: 100, tokens: tokens, more: rules.String()})
		if err != nil {
			return nil, err
		}
		walk := load.Request{Address: gateway.address(), Want: `"prompts":[`, Turns: true}
		var text []byte
		for _, token := range tokens {
			c, err := connect(ctx, gateway, false, token)
			if err != nil {
				return nil, err
			}
			pages, err := c.pages(ctx)
			if err != nil {
				return nil, err
			}
			for _, params := range pages {
				walk.Raw = append(walk.Raw, c.raw(len(walk.Raw)+1, wire.PromptsList, params))
			}
			if _, text, err = c.ask(ctx, wire.PromptsList, pages[len(pages)/2]); err != nil {
				return nil, err
			}
		}
		file, err := st.file("page.json", text)
		if err != nil {
			return nil, err
		}
		page, err := st.reference(ctx, "page", file)
		if err != nil {
			return nil, err
		}
		return []contestant{{"promptweir", gateway.Process, walk}, bare(page, walk)}, nil
	}
}

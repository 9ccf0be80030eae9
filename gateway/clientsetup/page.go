package clientsetup

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/config"
)

//go:embed page.css
var pageCSS string

// pageScript shows the copy buttons if the browser lets pages write to the clipboard: over https and from
// localhost.
const pageScript = `'use strict';
for (const button of document.querySelectorAll('button')) {
  if (!navigator.clipboard) break;
  button.hidden = false;
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
}`

// pagePolicy allows only the page's style sheet and script. It is the same for every endpoint.
var pagePolicy = "default-src 'none'; style-src " + hashOf(pageCSS) + "; script-src " + hashOf(pageScript) + //nolint:gochecknoglobals // constant
	"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// ServePage writes an HTML page about connecting clients to an endpoint or its variants.
func ServePage(w http.ResponseWriter, endpoint string, access Access, r Registration, variants ...config.Variant) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	// MCP clients get another response at the same address.
	header.Add("Vary", "Accept")
	_ = page(endpoint, access, r, variants).Render(w) // fails only if the browser has disconnected
}

func page(endpoint string, access Access, r Registration, variants []config.Variant) g.Node {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			g.Raw(`<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">`+
				`<title>promptweir: prompts for MCP clients</title>`),
			h.StyleEl(g.Raw(pageCSS)),
		),
		h.Body(
			g.Raw(`<header><h1>promptweir</h1><p>This address is for MCP clients. It serves prompts: point `+
				`your client at it, and your prompts are in its menu of slash commands, always `+
				`up to date.</p></header>`),
			h.Main(
				h.Dl(
					h.Dt(g.Text("Endpoint")),
					h.Dd(h.Code(h.ID("endpoint"), g.Text(endpoint)), copyButton(), g.Text(" (Streamable HTTP)")),
					h.Dt(g.Text("Access")), h.Dd(h.ID("access"), access.describe()),
				),
				g.Map(For(endpoint, "prompts", access, r, variants...), func(client Client) g.Node {
					return h.Section(h.ID(client.Name), h.H2(g.Text(client.Title)),
						g.If(client.Link != "", h.P(h.A(h.Href(client.Link), g.Text("Add it to "+client.Title)), g.Text(", or:"))),
						h.P(g.Text(client.Where+":")),
						h.Div(h.Class("copy"), h.Pre(h.Code(g.Text(client.Text))), copyButton()),
						h.P(h.Class("quiet"), g.Text(client.Then)))
				}),
				g.Raw(`<section><h2>Any other client</h2><p>Add a server with the transport <q>HTTP</q> or `+
					`<q>Streamable HTTP</q>, and the endpoint above as its URL.</p></section>`),
			),
			h.Script(g.Raw(pageScript)),
		),
	))
}

// copyButton returns a button that copies the element before it. The button is hidden until pageScript runs.
func copyButton() g.Node { return h.Button(h.Type("button"), g.Attr("hidden"), g.Text("Copy")) }

// describe returns a sentence for the page about the client's credential.
func (a Access) describe() g.Node {
	switch a {
	case SignIn:
		return g.Text("You sign in: your client opens a browser when it connects for the first time.")
	case Token:
		return g.Raw("You need a token from the people who run this gateway. Set it as <code>" + TokenVariable +
			"</code> where your client runs.")
	case Certificate:
		return g.Text("Your client needs a certificate from the people who run this gateway.")
	}
	return g.Text("You need nothing else.")
}

// IsBrowser reports whether a request comes from the address bar of a browser and not from an MCP
// client: such a request accepts HTML by name, and no event stream.
func IsBrowser(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	wantsHTML := false
	for _, value := range r.Header["Accept"] {
		for item := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "text/html":
				wantsHTML = true
			case "text/event-stream":
				return false
			}
		}
	}
	return wantsHTML
}

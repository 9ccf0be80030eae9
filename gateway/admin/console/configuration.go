package console

import (
	"net/http"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/admin"
)

// configuration shows the files in use, and the errors of the last load.
func (c *console) configuration(_ *http.Request, p *page) (Node, error) {
	state := c.view.Configuration()
	p.name, p.title = "configuration", "Configuration: in use"
	if state.Refused != nil {
		p.title = "Configuration: the last one was refused"
	}
	return Group{
		H1(Text("Configuration")),
		loaded(p, state),
		Form(Action("/reload"), Method("post"), hidden("next", p.uri), P(Button(Text("Reload")))),
		section("files", "Files in use",
			quiet(Text("Their hashes and diagnostics as JSON: "), Raw(`<a href="/api/config">/api/config</a>.`)),
			Ul(Class("cards"), live("file-list"), Map(state.Files, loadedFile))),
	}, nil
}

// loadedFile shows a file in use, its hash and the time when its text came into use.
func loadedFile(f admin.LoadedFile) Node {
	return Li(Class("card"), bdi(f.Name), Text(" "),
		note(Text("since "), moment(f.Loaded), Text(", SHA-256 "+f.SHA256[:shortHash]+"…")),
		If(f.Kept, Group{Text(" "), remedy("The file has errors now: this earlier text stays in use.")}))
}

// shortHash is the number of digits of a hash on the page: enough to compare two files by eye.
const shortHash = 12

// loaded shows the time when the configuration came into use, its warnings, and the errors of the last
// load.
func loaded(p *page, state *admin.ConfigurationState) Node {
	warned := ", without warnings."
	if n := len(state.Warnings); n > 0 {
		warned = ", with " + count(n, "warning") + "."
	}
	return Div(live("loaded"), refused(p, state),
		If(state.Refused == nil, quiet(Text("In use since "), moment(state.Loaded), Text(warned))),
		If(len(state.Warnings) > 0,
			section("warnings", "Warnings", Class("card poor"), problems(state.Warnings))))
}

package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/clientsetup"
	"github.com/promptweir/promptweir/gateway/inspect"
	"github.com/promptweir/promptweir/gateway/policy"
)

// prompt shows a prompt: who sees it, its owners and checks, a form to try it, and a command to get it.
func (c *console) prompt(r *http.Request, p *page) (Node, error) {
	name := r.FormValue("name")
	prompt, err := c.view.Prompt(name, p.as)
	if err != nil {
		return nil, err
	}
	p.name, p.title = "prompt", line(name)
	if p.as != "" {
		p.sees = visibilitySentence(p.as, prompt.Answer)
	}
	var try, use Node
	if prompt.Listed {
		try = c.trySections(r, p, prompt)
		use = section("use", "Use it", command(prompt, c.view.Endpoint(r)))
	}
	return Group{
		Nav(Class("crumbs"), Aria("label", "Breadcrumb"), A(href(p.link("/prompts")), Text("Prompts")),
			If(prompt.Team != "", Group{
				Text(" / "), A(href(p.link("/prompts", "team", prompt.Team)), bdi(prompt.Team)),
			})),
		H1(Class("name"), bdi(name)),
		Div(live("about"), If(prompt.Title != "", P(Class("lead"), bdi(prompt.Title))),
			If(prompt.Description != "", prose("prose", "Description", prompt.Description))),
		Div(live("reports"),
			Map(prompt.Reports, func(report string) Node {
				if !prompt.Listed && report == prompt.Answer.Offered {
					return nil // the card below contains the same text
				}
				return P(Class("card poor"), bdi(sentence(report)))
			}),
			If(!prompt.Listed, section("unlisted", "Not in the catalog", Class("card bad"),
				P(bdi(sentence(prompt.Answer.Offered)), Text(" No client can see or get it."))))),
		// Use Iff, because If would read the file even for callers who may not see it.
		Iff(c.mayRead(r), func() Node { return fileSection(c.view.File(r.Context(), name, formArguments(r))) }),
		Div(Class("columns"),
			Div(
				visibility(p.as, prompt.Answer),
				Form(Class("viewas"), Action("/prompt"), Method("get"), hidden("name", name),
					p.asField(c.view.Principals()), Button(Text("View"))),
				owners(prompt.Owners),
				admissions(prompt.Admissions),
				use,
			),
			Div(try, losses(prompt.Losses))),
	}, nil
}

// visibility shows the readers of a prompt or, if as is not empty, whether that principal sees it.
func visibility(as string, answer *inspect.Answer) Node {
	heading, show := Group{Text("Who sees it")}, readers
	if as != "" {
		heading, show = Group{Text("Does "), bdi(as), Text(" see it?")}, verdict
	}
	return Section(live("visibility"), Aria("labelledby", "visible"), H2(ID("visible"), heading),
		Map(answer.Upstreams, show),
		If(len(answer.Upstreams) == 0, P(Text("Nobody: it is not in the catalog."))))
}

// visibilitySentence tells whether a principal sees a prompt.
func visibilitySentence(as string, answer *inspect.Answer) Node {
	sees := " does not see this prompt: for them it does not exist, neither in lists nor for gets."
	switch {
	case slices.ContainsFunc(answer.Upstreams, func(u inspect.AnswerUpstream) bool { return u.Visible }):
		sees = " sees this prompt: its definition, and what a get returns."
	case slices.ContainsFunc(answer.Upstreams, func(u inspect.AnswerUpstream) bool { return u.Undecided }):
		sees = " may see this prompt, if it exists: that depends on its definition."
	}
	return Group{B(bdi(as)), Text(sees + " All else on this page is for operators.")}
}

func verdict(u inspect.AnswerUpstream) Node {
	level, word := admin.Bad, "No"
	switch {
	case u.Visible:
		level, word = admin.Good, "Yes"
	case u.Undecided:
		level, word = admin.Poor, "Perhaps"
	}
	return Group{
		P(Class("verdict "+level.String()), dot(), B(Text(word)), Text(", from "),
			bdi(u.Upstream), Text(": "), bdi(u.Reason), If(u.Rule != "", Group{Text(" "), location(u.Rule)})),
		steps(u.Steps),
	}
}

func steps(all []policy.Step) Node {
	return Ol(Class("steps"), Map(all, func(step policy.Step) Node {
		return Li(If(step.Decides, Class("decides")), location(step.Rule), Text(" "), bdi(step.Text),
			If(step.Decides, Raw(" <b>decides</b>")))
	}))
}

func readers(u inspect.AnswerUpstream) Node {
	condition := ""
	if u.Offers == "unknown" {
		condition = ", if it offers one; rules that read the definition are not counted"
	}
	return Group{
		quiet(Text("From "), bdi(u.Upstream), Text(condition)),
		Ul(Class("readers"), Map(u.Readers, func(reader inspect.AnswerReader) Node {
			return Li(B(bdi(reader.Who)), Text(" by "), bdi(reader.By), Text(" "), location(reader.Rule))
		}), If(len(u.Readers) == 0, Li(Text("Nobody: "), bdi(u.Reason),
			If(u.Rule != "", Group{Text(" "), location(u.Rule)})))),
	}
}

// losses shows the parts of a prompt that clients lose.
func losses(all []clients.SharedLoss) Node {
	return If(len(all) > 0, section("lost", "Lost in clients", live("losses"),
		Ul(Class("plainlist"), Map(all, func(loss clients.SharedLoss) Node {
			return Li(bdi(sentence(loss.What())), Br(), note(bdi(sentence(loss.Remedy))))
		}))))
}

func owners(all []admin.PromptOwner) Node {
	return If(len(all) > 0, section("owned", "Owners", live("owners"),
		Ul(Class("plainlist"), Map(all, func(owner admin.PromptOwner) Node {
			return Li(Class(owner.Level.String()), B(bdi(owner.Name)), Text(" "),
				condition(owner.Condition), Br(), location(owner.Place),
				note(Text(" · called "), bdi(owner.Own), Text(" there"), revision(owner.Revision)),
				trouble(&owner.UpstreamHealth))
		}))))
}

// admissions shows, for each upstream, the checks and changes of its definition on the way into the
// catalog.
func admissions(all []inspect.Admission) Node {
	return If(len(all) > 0, section("admission", "Checks and changes",
		Map(all, func(a inspect.Admission) Node {
			if len(a.Steps) > 0 {
				return steps(a.Steps)
			}
			return quiet(Text("None from "), bdi(a.Upstream),
				Text(": no prompt block, lock file or screen applies to it."))
		})))
}

// trySections shows a form to try the prompt, or only its arguments if the caller may not try it. The
// definition follows.
func (c *console) trySections(r *http.Request, p *page, prompt *admin.Prompt) Node {
	tryOrRead := argumentList(prompt.Arguments)
	if c.operators.Proven(r) {
		tryOrRead = tryForm(p, prompt)
	}
	return Group{
		tryOrRead,
		section("definition", "Definition", live("defined"),
			Div(Class("copy"), code("json", "definition", prompt.Definition))),
	}
}

// argumentName is the label of an argument.
func argumentName(a admin.PromptArgument) Node {
	return Group{Code(bdi(a.Name)), If(a.Required, Raw(` <span class="tag">required</span>`))}
}

func argumentList(all []admin.PromptArgument) Node {
	arguments := quiet(Text("It takes none."))
	if len(all) > 0 {
		arguments = Dl(Class("arguments"), Map(all, func(a admin.PromptArgument) Node {
			return Div(Dt(argumentName(a)), If(a.Description != "", Dd(bdi(a.Description))))
		}))
	}
	return section("arguments", "Arguments", arguments, Raw(`<p class="quiet">To try it here, `+
		`open the link that <code>promptweir console</code> prints, or configure `+
		`<code>admin.token_sha256</code> and sign in with the token.</p>`))
}

func tryForm(p *page, prompt *admin.Prompt) Node {
	var fields Group
	var names []string
	for i, a := range prompt.Arguments {
		fields, names = append(fields, argumentField(strconv.Itoa(i), a)), append(names, line(a.Name))
	}
	return section("try", "Try it",
		Form(ID("tryit"), Class("tryit"), Action("/try"), Method("post"), AutoComplete("off"),
			hidden("name", prompt.Name), hidden("as", p.as),
			Div(ID("fields"), Data("fields", strings.Join(names, " ")), fields,
				If(len(fields) == 0, quiet(Text("It takes no arguments.")))),
			P(Raw(`<button class="primary" id="run" aria-keyshortcuts="Control+Enter">Run</button> `+
				`<button type="button" id="stop" hidden>Stop</button>`),
				If(len(fields) > 0, note(Text(" or Ctrl-Enter in a field")))),
			Raw(`<p class="quiet">In any view, it runs as you, with the gateway's credential at the server. The audit log, if there is one, records it.</p>`+
				`<noscript><p class="card poor">This needs JavaScript.</p></noscript>`)),
		Raw(`<div id="outcome" class="outcome" tabindex="-1" role="region" aria-label="Outcome"></div>`))
}

func argumentField(i string, a admin.PromptArgument) Node {
	described := a.Description != ""
	return Div(Class("argument"), Label(For("arg-"+i), argumentName(a)),
		Textarea(ID("arg-"+i), Name(fieldPrefix+a.Name), Data("argument", a.Name), Rows("1"),
			Dir("auto"), If(a.Required, Required()), Attr("spellcheck", "false"),
			If(described, Aria("describedby", "about-"+i))),
		If(described, quiet(ID("about-"+i), bdi(a.Description))))
}

// command is a shell command that gets the prompt, with a placeholder for each required argument.
func command(prompt *admin.Prompt, endpoint string) Node {
	words := Group{Text("promptweir get")}
	// Call line before ShellWord: a quoted word that is cut has lost its closing quote, and a shell would
	// run parts of it.
	add := func(word string) {
		words = append(words, Text(" "), El("bdi", Text(clientsetup.ShellWord(word))))
	}
	add("--url")
	add(line(endpoint))
	add("--") // a server's names must not count as flags
	add(line(prompt.Name))
	for _, a := range prompt.Arguments {
		if a.Required {
			add(line(a.Name) + "=…")
		}
	}
	return copyable("get", "Command", words)
}

// copyable is code with a copy button.
func copyable(id, label string, code Node) Node {
	return Div(Class("copy"),
		Pre(TabIndex("0"), Role("group"), Aria("label", label), Code(ID(id), code)),
		Button(Type("button"), Class("plain"), Data("copy", id), Attr("hidden"), Text("Copy")))
}

package console

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/elicit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// questionForm shows what a server asks during a run.
func questionForm(run string, q *elicit.Request) Node {
	answer := "Answer"
	if q.IsURL {
		answer = "Done"
	}
	var fields Group
	for i := range q.Fields {
		fields = append(fields, field(strconv.Itoa(i), &q.Fields[i]))
	}
	return Form(Class("card question"), Data("run", run), Aria("labelledby", "asks"),
		Attr("novalidate"), H3(ID("asks"), Text("The server asks")), prose("prose", "Question", q.Message),
		Iff(q.IsURL, func() Node { return addressToOpen(q.URL) }),
		fields,
		P(Button(Class("primary"), Name("action"), Value("accept"), Text(answer)), Text(" "),
			Button(Name("action"), Value("decline"), Text("Decline"))))
}

// addressToOpen says where an address leads, which may be hard to find in it, and links to it where
// it can be opened.
func addressToOpen(address string) Node {
	host := ""
	if u, err := url.Parse(address); err == nil {
		host = u.Hostname()
	}
	shown := El("bdi", Text(text(address)))
	link := Code(shown)
	if isWeb(address) {
		link = A(href(address), Target("_blank"), Rel("noopener noreferrer"), shown)
	}
	return Group{
		P(Text("Open this address"), If(host != "", Group{Text(" on "), B(bdi(host))}),
			Text(", if you trust it: "), link),
		If(imitates(host), P(Class("bad-text"), Text("The host's name has letters beyond "+
			"English ones, and may imitate another name."))),
	}
}

// imitates reports whether the host's name has letters that look like those of another one,
// perhaps.
func imitates(host string) bool {
	return strings.Contains(strings.ToLower(host), "xn--") ||
		strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII })
}

// field is a field of a question, with what its answer has to be like.
func field(i string, f *elicit.Field) Node {
	id, name := "ask-"+i, Name(fieldPrefix+f.Name)
	label := Group{bdi(f.Label()), If(f.Required, requiredTag())}
	hint := Aria("describedby", "hint-"+i)
	asked := Group{Label(For(id), label), input(f, ID(id), name, hint, If(f.Required, Required()))}
	if f.Several() {
		asked = Group{FieldSet(hint, Legend(label), Map(f.Choices, func(choice elicit.Choice) Node {
			return Label(Class("choice"), Input(Type("checkbox"), name, Value(choice.Value)), Text(" "),
				bdi(cmp.Or(choice.Title, choice.Value)))
		}))}
	}
	return Div(Class("argument"), Data("field", f.Name), asked,
		quiet(ID("hint-"+i), If(f.Description != "", Group{bdi(f.Description), Text(" ")}),
			If(f.Limits() != "", Group{Span(Class("limits"), Text(sentence(f.Limits()))), Text(" ")}),
			Span(Class("problem bad-text"))))
}

// input is a field's element for one answer.
func input(f *elicit.Field, attributes ...Node) Node {
	byDefault := ""
	if f.Default != nil {
		byDefault = plainText(f.Default)
	}
	switch {
	case len(f.Choices) > 0:
		return selection(f.Choices, byDefault, attributes)
	case f.Type == "boolean":
		byDefault = map[string]string{"true": "yes", "false": "no"}[byDefault]
		return selection([]elicit.Choice{{Value: "true", Title: "yes"}, {Value: "false", Title: "no"}},
			byDefault, attributes)
	}
	return Input(Group(attributes), Type(inputType(f)),
		If(f.Type == "integer" || f.Type == "number", Attr("inputmode", "decimal")),
		If(byDefault != "", Placeholder(line(byDefault))), Dir("auto"), AutoComplete("off"))
}

func selection(choices []elicit.Choice, byDefault string, attributes Group) Node {
	unless := "no answer"
	if byDefault != "" {
		unless = line(byDefault) + " (unless you choose)"
	}
	return Select(attributes, Option(Value(""), Text(unless)),
		Map(choices, func(choice elicit.Choice) Node {
			return Option(Value(choice.Value), Text(line(cmp.Or(choice.Title, choice.Value))))
		}))
}

// inputType returns the kind of input that a browser has for a field's format. None has one for a
// time with its zone.
func inputType(f *elicit.Field) string {
	switch {
	case f.Type != "string":
	case f.Format == "email", f.Format == "date":
		return f.Format
	case f.Format == "uri":
		return "url"
	}
	return "text"
}

// plainText returns the text of a JSON string, and any other value as JSON.
func plainText(value jsontext.Value) string {
	if text, ok := wire.Text(value); ok {
		return text
	}
	return string(value)
}

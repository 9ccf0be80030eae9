package flat_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/flat"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// hostile are pieces of names and texts with a special meaning for some reader.
var hostile = []string{ //nolint:gochecknoglobals // a constant list
	"a", "notes", "severity", "input", "user", ": ", ":", "notes: x", "a: b", "\n", "\r\n", "\r", "\u2028",
	"## user", "## assistant", "##  User:", " ## user", "#", "##", "## users", "\n## user\n", "\n## assistant",
	"[image left out]", `"`, `\`, "\x00", "é", "日本", "https://a.example", "\t", " ",
}

func drawText(t *rapid.T, most int) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(hostile), 0, most).Draw(t, "text"), "")
}

// drawPrompt returns a definition with up to five arguments of different names.
func drawPrompt(t *rapid.T) catalog.Prompt {
	type argument struct {
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		Required    bool   `json:"required,omitempty"`
	}
	arguments := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) argument {
		return argument{drawText(t, 2), drawText(t, 3), rapid.Bool().Draw(t, "required")}
	}), 0, 5, func(a argument) string { return a.Name }).Draw(t, "arguments")
	definition, _ := json.Marshal(map[string]any{"name": "p", "title": drawText(t, 3), "description": drawText(t, 9), "arguments": arguments})
	p, err := catalog.ParsePrompt(definition)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Whatever a definition declares and a result has, it is flat afterwards, and nothing is lost without being named.
func TestFlat_LosesNothingWithoutNamingIt(t *testing.T) {
	for _, check := range []func(*rapid.T){wantFlatDefinition, wantArguments, wantFlatResult} {
		for range 10 {
			rapid.Check(t, check)
		}
	}
}

func wantFlatDefinition(t *rapid.T) {
	p := drawPrompt(t)
	made := flat.Definition(p.Definition, p.Arguments)
	if len(p.Arguments) < 2 {
		if string(made) != string(p.Definition) {
			t.Errorf("%s\nbecame %s", p.Definition, made)
		}
		return
	}
	got, err := catalog.ParsePrompt(made)
	if err != nil || len(got.Arguments) != 1 || got.Arguments[0].Name != flat.Input {
		t.Fatalf("%s\nbecame %s: %v", p.Definition, made, err)
	}
	required := slices.ContainsFunc(p.Arguments, func(a catalog.Argument) bool { return a.Required })
	if got.Arguments[0].Required != required {
		t.Errorf("%s\nbecame %s", p.Definition, made)
	}
	rest := func(definition jsontext.Value) string {
		return string(wire.Members(definition).Without(func(name string) bool { return name == "arguments" }).JSON())
	}
	if rest(made) != rest(p.Definition) {
		t.Errorf("%s\nbecame %s", p.Definition, made)
	}
	arguments, _ := wire.ParseArray(wire.Members(made).Get("arguments"))
	description, _ := wire.Members(arguments[0]).Text("description")
	for _, a := range p.Arguments {
		if !strings.Contains(description, fmt.Sprintf(" %q", a.Name)) {
			t.Errorf("%q does not name %q", description, a.Name)
		}
	}
}

// wantArguments writes some arguments as people are told to, and checks that they arrive, each once.
func wantArguments(t *rapid.T) {
	p := drawPrompt(t)
	if len(p.Arguments) < 2 {
		return
	}
	want, lines := map[string]string{}, []string{}
	for _, a := range rapid.Permutation(p.Arguments).Draw(t, "order") {
		name := a.Name
		if rapid.Bool().Draw(t, "given") && !strings.ContainsAny(name, "\n\r") && !strings.Contains(name, ": ") && name != "" && !strings.HasSuffix(name, ":") {
			want[name] = strings.Trim(strings.NewReplacer("\n", "", "\r", "").Replace(drawText(t, 4)), " \t")
			lines = append(lines, name+": "+want[name]+rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "break"))
		}
	}
	text := drawText(t, 9)
	missing := []string{}
	for _, a := range p.Arguments {
		if _, ok := want[a.Name]; a.Required && !ok {
			missing = append(missing, a.Name)
		}
	}
	blank, input := strings.TrimSpace(text) == "", strings.Join(lines, "")+"\n"+text
	got, err := flat.Arguments(p.Arguments, wire.Object{}.With(flat.Input, wire.Quote(input)))
	switch {
	case len(missing) > 1, len(missing) == 1 && blank:
		if !blank {
			missing = missing[:len(missing)-1]
		}
		if err == nil || !strings.Contains(err.Error(), strings.Join(missing, ", ")) {
			t.Errorf("%v does not name %q", err, missing)
		}
		return
	case len(missing) == 0 && !blank:
		if err == nil {
			t.Errorf("%q is for no argument of %s", text, p.Definition)
		}
		return
	case len(missing) == 1:
		want[missing[0]] = text
	}
	arrived := map[string]string{}
	for _, a := range got {
		if _, again := arrived[a.Name]; again {
			t.Errorf("%q arrives twice", a.Name)
		}
		arrived[a.Name], _ = wire.Text(a.Value)
	}
	if diff := cmp.Diff(want, arrived); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s\nof %q for %s", err, diff, input, p.Definition)
	}
}

// looksLike finds lines that a careless reader would take for headings.
var (
	looksLike = regexp.MustCompile(`(?im)^##[ \t]*(user|assistant)[ \t:#]*\r?$`)
	indented  = regexp.MustCompile(`(?im)^ (##[ \t]*(?:user|assistant)[ \t:#]*\r?)$`)
)

func wantFlatResult(t *rapid.T) {
	var messages []any
	var pieces, roles []string // in order
	for range rapid.IntRange(0, 4).Draw(t, "messages") {
		role := rapid.SampledFrom([]string{"user", "assistant"}).Draw(t, "role")
		if len(roles) == 0 || roles[len(roles)-1] != role {
			roles = append(roles, role)
		}
		var content map[string]any
		uri, text := "file:///"+drawText(t, 2), drawText(t, 9)
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			content = map[string]any{"type": "image", "data": "", "mimeType": "image/png"}
			pieces = append(pieces, "[image (image/png) left out]")
		case 1:
			content = map[string]any{"type": "resource_link", "uri": uri, "name": "n"}
			pieces = append(pieces, "[resource_link "+wire.Printable(uri)+" left out]")
		case 2:
			content = map[string]any{"type": "resource", "resource": map[string]any{"uri": uri, "blob": ""}}
			pieces = append(pieces, "[resource "+wire.Printable(uri)+" left out]")
		case 3:
			content = map[string]any{"type": "resource", "resource": map[string]any{"uri": uri, "text": text}}
			pieces = append(pieces, text)
		default:
			content = map[string]any{"type": "text", "text": text}
			pieces = append(pieces, text)
		}
		messages = append(messages, map[string]any{"role": role, "content": content})
	}
	if messages == nil {
		messages = []any{}
	}
	result, _ := json.Marshal(map[string]any{"description": "d", "messages": messages})
	var got struct {
		Description string
		Messages    []struct {
			Role    string
			Content struct{ Type, Text string }
		}
	}
	made := flat.Result(result)
	if err := json.Unmarshal(made, &got); err != nil || len(got.Messages) != 1 || got.Messages[0].Role != "user" ||
		got.Messages[0].Content.Type != "text" || got.Description != "d" {
		t.Fatalf("%s\nbecame %s: %v", result, made, err)
	}
	text := got.Messages[0].Content.Text
	var headings []string
	for _, found := range looksLike.FindAllStringSubmatch(text, -1) {
		headings = append(headings, strings.ToLower(found[1]))
	}
	if len(messages) == 1 && roles[0] == "user" {
		roles = nil
	}
	if !slices.Equal(headings, roles) {
		t.Errorf("headings %q, want %q in %q", headings, roles, text)
	}
	// Without what indents headings, each piece is there.
	rest := indented.ReplaceAllString(text, "$1")
	for _, piece := range pieces {
		_, after, ok := strings.Cut(rest, indented.ReplaceAllString(piece, "$1"))
		if !ok {
			t.Fatalf("%q is not in order in %q", piece, text)
		}
		rest = after
	}
}

func TestArguments_OfExamples(t *testing.T) {
	declared := []catalog.Argument{{Name: "notes", Required: true}, {Name: "severity"}, {Name: "input", Required: true}}
	for input, want := range map[string]string{
		"notes: n\nfree text":                     `{"notes":"n","input":"free text"}`,
		"input: i\nseverity: major\nlong\nnotes:": `{"input":"i","severity":"major","notes":"long\nnotes:"}`,
		"notes: n\nnotes: again":                  `{"notes":"n","input":"notes: again"}`,
		"notes: n\n\nseverity: is text":           `{"notes":"n","input":"severity: is text"}`,
		"notes: n\n\n\n two":                      `{"notes":"n","input":"\n two"}`,
		"Notes: n\nx":                             "Missing required arguments: notes; write a line \"name: value\" for each in input (-32602)",
		"notes:n\ninput: x":                       "Missing required arguments: notes; write a line \"name: value\" for each in input (-32602)",
		"":                                        "Missing required arguments: notes, input; write a line \"name: value\" for each in input (-32602)",
		" \n":                                     "Missing required arguments: notes, input; write a line \"name: value\" for each in input (-32602)",
		"notes: n\ninput: i\nmore": "Invalid argument input: only lines \"name: " +
			"value\" can follow, for notes, severity, input (-32602)",
		"notes:\ninput: \r\nseverity:":          `{"notes":"","input":"","severity":""}`,
		"notes: a\rseverity: b\ninput: \u2028x": `{"notes":"a\rseverity: b","input":"` + "\u2028" + `x"}`,
	} {
		got, err := flat.Arguments(declared, wire.Object{}.With("input", wire.Quote(input)).With("severity", wire.Quote("not read")))
		text := string(got.JSON())
		if err != nil {
			text = err.Error()
		}
		upstreamtest.Equal(t, want, text, "%q", input)
	}
	if _, err := flat.Arguments(declared, wire.Object{}.With("input", jsontext.Value(`7`))); err == nil {
		t.Error("a number was accepted")
	}
}

func TestText_AttachesWhatIsNoText(t *testing.T) {
	image := `{"type":"image","data":"","mimeType":"image/png"}`
	text, attached := flat.Text(jsontext.Value(`[{"role":"user","content":[{"type":"text","text":"a"},`+image+`,{"type":"video","uri":"u"}]}]`), true)
	if want := "a\n\n[image (image/png) attached]\n\n[video u left out]"; text != want || len(attached) != 1 || string(attached[0]) != image {
		t.Errorf("%q, %s", text, attached)
	}
}

package clientfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/internal/hclread"
)

// block is an upstream block to write.
type block struct {
	// name is the client's name for the server. label is the label of the block.
	name, label string
	// comments precede the block.
	comments   []string
	attributes []attribute
	command    string // the attribute's value, or empty for a server with an address
	// variables contains the environment variables that the server needs. optional contains variables with
	// a default.
	variables, optional []string
	// off is the reason for writing the block as a comment. It is empty if the block is written as it is.
	off string
}

type attribute struct{ name, value string }

// translate makes a block from a server in a client's file. It sets no label.
func translate(m member, f clientConfig, v *variables) *block {
	t := translator{variables: v, server: m.name, inputs: f.inputs, folder: f.folder}
	b := &block{name: m.name}
	if description, ok := text(find(m.value, "description")); ok {
		b.comments = append(b.comments, description)
	}
	kind := first(m.value, "type", "transport")
	url := first(m.value, "httpUrl", "url", "serverUrl") // Gemini CLI prefers httpUrl
	url = httpScheme().ReplaceAllStringFunc(url, strings.ToLower)
	command, _ := text(find(m.value, "command"))
	switch {
	case kind == "ws" || kind == "websocket":
		b.off = "the gateway does not speak MCP over WebSockets"
		b.set("url", t.address(withoutUser(&t, url)))
	case command != "" && (url == "" || kind == "stdio"):
		b.child(&t, m.value, command)
	case url != "":
		b.remote(&t, m.value, kind, url)
	default:
		b.off = "it has neither a command nor a url"
	}
	if find(m.value, "httpUrl") != nil && find(m.value, "url") != nil {
		b.comments = append(b.comments, "Not imported: url, as there is httpUrl.")
	}
	b.timeout(find(m.value, "timeout"))
	b.comments, b.variables, b.optional = append(b.comments, t.remarks...), t.used, t.optional
	b.notImported(m.value)
	if find(m.value, "disabled").Kind() == 't' || find(m.value, "enabled").Kind() == 'f' {
		b.off = "it is disabled in the client"
	}
	return b
}

func (b *block) set(name, value string) {
	b.attributes = append(b.attributes, attribute{name, value})
}

// child translates a server that the client starts.
func (b *block) child(t *translator, server jsontext.Value, command string) {
	arguments, ok := texts(find(server, "args"))
	if !ok && find(server, "args") != nil {
		b.comments = append(b.comments, "Not imported: args is not a list of strings.")
	}
	t.own = names(find(server, "env"))
	words := t.arguments(append([]string{command}, arguments...))
	b.command = "[" + strings.Join(words, ", ") + "]"
	b.set("command", b.command)
	if folder, ok := text(find(server, "cwd")); ok && folder != "" {
		b.workingFolder(t, folder)
	}
	b.environment(t, "env", find(server, "env"))
	if path, ok := text(find(server, "envFile")); ok {
		b.comments = append(b.comments, "The client reads variables from "+path+": copy those the server needs into env.")
	}
}

// timeout translates a timeout. A number below 1000 is seconds, any other number is milliseconds.
func (b *block) timeout(raw jsontext.Value) {
	value, _ := text(raw)
	n, err := strconv.Atoi(value)
	switch {
	case raw == nil:
	case err != nil || n <= 0:
		b.comments = append(b.comments, "Not imported: timeout, which is not a positive whole number.")
	case n < 1000:
		b.set("timeout", quote(fmt.Sprintf("%ds", n)))
	default:
		b.set("timeout", quote(fmt.Sprintf("%gs", float64(n)/1000)))
	}
}

// workingFolder translates a server's working folder to dir. If [File.Folder] is empty, it leaves out an absolute
// folder that does not exist here.
func (b *block) workingFolder(t *translator, folder string) {
	if isRelative := !filepath.IsAbs(folder) && !strings.HasPrefix(folder, "${"); isRelative && t.folder != "" {
		folder = filepath.Join(t.folder, folder)
	} else if isRelative {
		b.comments = append(b.comments, "In the client, dir was relative to its project; here it is relative to the folder of this file.")
	}
	if info, err := os.Stat(folder); filepath.IsAbs(folder) && t.folder == "" && (err != nil || !info.IsDir()) {
		b.comments = append(b.comments, "Not imported: cwd, as there is no folder "+folder+" on this machine.")
		return
	}
	var e expression
	t.template(&e, "", folder)
	b.set("dir", e.String())
}

// remote translates a server with an address.
func (b *block) remote(t *translator, server jsontext.Value, kind, url string) {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "${") {
		b.off = "its url is not an HTTP URL"
	}
	b.set("url", t.address(withoutUser(t, url)))
	if kind == "sse" {
		b.set("transport", quote("sse"))
	}
	b.environment(t, "headers", find(server, "headers"))
	for _, name := range []string{"oauth", "auth"} {
		if find(server, name) != nil {
			b.comments = append(b.comments, name+": in the client, a person signs in. The "+
				"gateway gets tokens through an oauth block (client credentials), or sends one in headers.")
		}
	}
	if find(server, "headersHelper") != nil {
		b.comments = append(b.comments, "headersHelper: in the client, a program prints headers. "+
			"Here, write them in headers, or use an oauth block (client credentials).")
	}
}

var (
	userInfo   = hclread.Lazily(`^(https?://)[^/?#]*@`)
	httpScheme = hclread.Lazily(`^(?i:https?)://`)
)

// withoutUser removes the user and the password from a URL.
func withoutUser(t *translator, url string) string {
	if !userInfo().MatchString(url) {
		return url
	}
	t.remarks = append(t.remarks, `Its url had a user and a password: write headers = { Authorization = "Basic ${base64encode(env("…"))}" }.`)
	return userInfo().ReplaceAllString(url, "$1")
}

// environment translates env or headers, except headers that the gateway sets itself.
func (b *block) environment(t *translator, name string, object jsontext.Value) {
	t.inEnv = name == "env"
	var lines []string
	for _, m := range members(object) {
		value, ok := text(m.value)
		switch {
		case name == "headers" && config.IsReservedHeader(m.name):
			b.comments = append(b.comments, "Not imported: the header "+m.name+", which the gateway sets itself.")
			continue
		case !ok:
			b.comments = append(b.comments, "Not imported: "+m.name+" in "+name+", which is not a string.")
			continue
		}
		lines = append(lines, key(m.name)+" = "+t.setting(m.name, value))
	}
	switch len(lines) {
	case 0:
	case 1:
		b.set(name, "{ "+lines[0]+" }")
	default:
		b.set(name, "{\n"+strings.Join(lines, "\n")+"\n}")
	}
}

// key returns a key of an object as HCL.
func key(name string) string {
	if hclsyntax.ValidIdentifier(name) {
		return name
	}
	return quote(name)
}

// notImported adds a comment with the names of the members that have no translation.
func (b *block) notImported(server jsontext.Value) {
	translated := []string{
		"type", "command", "args", "env", "cwd", "envFile", "url", "serverUrl", "httpUrl", "headers", "disabled", "enabled", "description",
		"oauth", "auth", "headersHelper", "transport", "timeout",
	}
	var names []string
	for _, m := range members(server) {
		if !slices.Contains(translated, m.name) {
			names = append(names, m.name)
		}
	}
	if len(names) > 0 {
		b.comments = append(b.comments, "Not imported: "+strings.Join(names, ", ")+".")
	}
}

// first returns the first member among names that is a text and not empty.
func first(server jsontext.Value, names ...string) string {
	for _, name := range names {
		if s, ok := text(find(server, name)); ok && s != "" {
			return s
		}
	}
	return ""
}

// Label makes a label from a name: letters, digits, - and _.
func Label(name string) string {
	label := strings.Map(func(r rune) rune {
		if r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_') {
			return r
		}
		return '-'
	}, name)
	if label = strings.Trim(label, "-"); label == "" {
		return "server"
	}
	return label[:min(len(label), maxLabel)]
}

// maxLabel bounds a label in bytes, with room for a number that makes it unique. The label is the prefix of the
// server's prompts.
const maxLabel = 60

// write returns the block with its comments as unformatted HCL. If off is set, the whole block is a comment.
func (b *block) write() string {
	var text strings.Builder
	if b.label != b.name {
		text.WriteString(comment("In the client: " + b.name))
	}
	for _, c := range b.comments {
		text.WriteString(comment(c))
	}
	if b.off != "" {
		text.WriteString(comment("Left out: " + b.off + "."))
	}
	body := b.body()
	if b.off == "" {
		return text.String() + body
	}
	for line := range strings.Lines(string(hclwrite.Format([]byte(body)))) {
		text.WriteString("# " + line)
	}
	return text.String()
}

// body returns the block without comments.
func (b *block) body() string {
	var text strings.Builder
	fmt.Fprintf(&text, "upstream %s {\n", quote(b.label))
	for _, a := range b.attributes {
		fmt.Fprintf(&text, "%s = %s\n", a.name, a.value)
	}
	text.WriteString("}\n")
	return text.String()
}

// maxComment bounds a comment in bytes, because comments may contain long texts of the client's file.
const maxComment = 400

// comment returns a text as one comment line, with secrets masked.
func comment(text string) string {
	line := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, config.HideSecrets(text))
	if line = strings.Join(strings.Fields(line), " "); len(line) > maxComment {
		line = strings.ToValidUTF8(line[:maxComment], "") + "…"
	}
	return "# " + line + "\n"
}

package clientfile

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/internal/hclread"
)

var (
	// reference matches a variable in a value: ${NAME}, ${NAME:-default}, ${env:NAME},
	// ${input:name} and other forms with a colon.
	reference = hclread.Lazily(`\$\{([^${}]+)\}`)
	// assignment matches a flag or a variable of a command line, with or without a value.
	assignment = hclread.Lazily(`^(--?[A-Za-z0-9_-]+|[A-Za-z_][A-Za-z0-9_]*)(=(.*))?$`)
	// headerWord matches a header in one word of a command line.
	headerWord = hclread.Lazily(`^([A-Za-z0-9-]+)(: *)(.+)$`)
	// credentialText matches a credential after a scheme such as Bearer.
	credentialText = hclread.Lazily(`^[^\s${}]{6,}$`)
	// notInName matches characters that variableName replaces.
	notInName = hclread.Lazily(`[^A-Z0-9]+`)
)

// variables records the environment variables that replace values of the clients' files.
type variables struct {
	// secrets maps the variable of each secret to its value.
	secrets map[string]string
	// notes maps variables to their descriptions for comments.
	notes map[string]string
	// ofFile is the suffix of the variables for secrets. It is empty if there is no [Machine].
	ofFile string
	// referenced contains names that secret must not use: variables in the clients' files, and common
	// variables such as PATH.
	referenced map[string]bool
}

// refer records the environment variables that a server's settings refer to.
func (v *variables) refer(server jsontext.Value) {
	own := names(find(server, "env"))
	for _, m := range members(server) {
		for _, at := range reference().FindAllSubmatch(m.value, -1) {
			inside := string(at[1])
			kind, name, _ := strings.Cut(inside, ":")
			for _, each := range []string{kind, name, variableName(name), variableName(inside)} {
				v.referenced[each] = v.referenced[each] || m.name == "env" || !own[each]
			}
		}
	}
}

// secret returns the variable for a secret, and records both. Different secrets get different variables.
func (v *variables) secret(name, value string) string {
	base := variableName(name)
	name = base + v.ofFile
	for n := 2; v.referenced[name] || v.notes[name] != "" && v.secrets[name] != value; n++ {
		name = fmt.Sprintf("%s_%d%s", base, n, v.ofFile)
	}
	v.secrets[name], v.notes[name] = value, "written out in the client's file"
	return name
}

// variableName makes the name of a variable from any text: upper case letters, digits and _.
func variableName(text string) string {
	name := strings.Trim(notInName().ReplaceAllString(strings.ToUpper(text), "_"), "_")
	if name == "" || name[0] <= '9' {
		name = "X_" + name
	}
	return name
}

// quote returns a text as an HCL string.
func quote(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

// expression is an HCL value in the parts of a template.
type expression struct {
	parts []string // quoted text without quotes, or a call in ${…}
	calls []string // the calls among the parts, without ${…}
}

func (e *expression) text(text string) {
	if text == "" {
		return
	}
	quoted := strings.TrimSuffix(strings.TrimPrefix(quote(text), `"`), `"`)
	if before, ok := strings.CutSuffix(quoted, "$"); ok { // a "$" before "${" would turn the call into text
		quoted = before + `${"$"}`
	}
	e.parts = append(e.parts, quoted)
}

func (e *expression) call(call string) {
	e.parts, e.calls = append(e.parts, "${"+call+"}"), append(e.calls, call)
}

// String returns the expression as HCL. A single call needs no template.
func (e *expression) String() string {
	if len(e.parts) == 1 && len(e.calls) == 1 {
		return e.calls[0]
	}
	return `"` + strings.Join(e.parts, "") + `"`
}

// translator translates the values of one server.
type translator struct {
	*variables
	server string
	// inEnv is true for the values of env, whose names are variables. Otherwise, the variable of a secret
	// begins with the server's name.
	inEnv bool
	// own contains the variables that the client sets for the server.
	own map[string]bool
	// inputs maps ids to the inputs of VS Code.
	inputs map[string]input
	folder string // see [File]
	// used contains the variables that the server needs. optional contains variables with a default.
	// remarks contains the comments about the server's values.
	used, optional []string
	remarks        []string
}

// env returns a call of env, and records the variable with its note. fallback is the default, or nil if there is none.
func (t *translator) env(name, note string, fallback *string) string {
	if t.notes[name] == "" {
		t.notes[name] = note
	}
	if fallback == nil {
		t.used = append(t.used, name)
		return "env(" + quote(name) + ")"
	}
	t.optional = append(t.optional, name)
	return "env(" + quote(name) + ", " + quote(*fallback) + ")"
}

// setting translates a value of env or headers. A variable replaces all of the value after a scheme
// such as Bearer, because any text may be a secret. If the value has references, variables replace only
// text that looks like a secret.
func (t *translator) setting(name, value string) string {
	var e expression
	rest := value[len(config.AuthScheme(value)):]
	t.credential(&e, name, value, rest != "" && !reference().MatchString(rest))
	return e.String()
}

// credential translates a value that may begin with a scheme such as Bearer. isSecret is true if all of the text after
// the scheme is a secret.
func (t *translator) credential(e *expression, name, value string, isSecret bool) {
	prefix := config.AuthScheme(value)
	rest := value[len(prefix):]
	e.text(prefix)
	if strings.EqualFold(name, "Authorization") {
		name = "token"
	}
	if isSecret || prefix != "" && credentialText().MatchString(rest) {
		t.hide(e, name, rest)
	} else {
		t.template(e, name, rest)
	}
}

// template translates references and replaces secrets.
func (t *translator) template(e *expression, name, value string) {
	if value != "" && config.IsSecretFlag(name) && !reference().MatchString(value) {
		t.hide(e, name, value)
		return
	}
	rest := value
	for _, at := range reference().FindAllStringSubmatchIndex(value, -1) {
		begin := len(value) - len(rest)
		t.literal(e, name, value[begin:at[0]])
		t.reference(e, value[at[2]:at[3]])
		rest = value[at[1]:]
	}
	t.literal(e, name, rest)
}

// hide adds a variable that replaces a secret.
func (t *translator) hide(e *expression, name, secret string) {
	if !t.inEnv {
		name = t.server + "_" + name
	}
	e.call(t.env(t.secret(name, secret), "", nil))
}

// literal adds text. A variable replaces text that looks like a secret.
func (t *translator) literal(e *expression, name, text string) {
	for {
		begin, end, what := config.FindSecret(text)
		if end == 0 {
			e.text(text)
			return
		}
		if t.inEnv { // distinguish the name from variables for other servers
			what = name + "_" + what
		}
		e.text(text[:begin])
		t.hide(e, what, text[begin:end])
		text = text[end:]
	}
}

// reference adds the translation of a reference. inside is the text between "${" and "}".
func (t *translator) reference(e *expression, inside string) {
	kind, name, hasKind := strings.Cut(inside, ":")
	fallback, hasFallback := strings.CutPrefix(inside[len(kind):], ":-")
	switch {
	case hasFallback && isVariable(kind): // the form of Claude Code and shells
		t.withDefault(e, kind, fallback)
	case !hasKind && (inside == "/" || inside == "pathSeparator"):
		e.text("/")
	case !hasKind && inside == "userHome":
		e.call(t.env("HOME", "", nil))
	case kind == "workspaceFolder":
		here := "."
		t.remarks = append(t.remarks,
			"${workspaceFolder} is the client's own folder. Here it is the gateway's working directory, unless WORKSPACE_FOLDER is set.")
		e.call(t.env("WORKSPACE_FOLDER", "", &here))
	case !hasKind && t.own[inside] && !t.inEnv: // the server or a shell replaces the variable
		e.text("${" + inside + "}")
	case !hasKind && isVariable(inside):
		e.call(t.env(inside, "", nil))
	case kind == "env" && isVariable(name):
		e.call(t.env(name, "", nil))
	case kind == "input":
		in := t.inputs[name]
		e.call(t.env(variableName(name), cmp.Or(in.description, "asked for by the client"), in.fallback))
	default:
		t.remarks = append(t.remarks, "Only the client knows ${"+inside+"}; "+variableName(inside)+" replaces it.")
		e.call(t.env(variableName(inside), "", nil))
	}
}

// withDefault translates a variable with a default. A default that looks like a secret is not written
// out: with a [Machine], another variable contains it; otherwise, the variable must be set.
func (t *translator) withDefault(e *expression, name, fallback string) {
	_, end, _ := config.FindSecret(fallback)
	switch {
	case fallback == "" || end == 0 && !config.IsSecretName(name):
		e.call(t.env(name, "", &fallback))
	case t.ofFile == "":
		e.call(t.env(name, "its default is written out in the client's file", nil))
	default:
		t.optional = append(t.optional, name)
		e.call("env(" + quote(name) + ", " + t.env(t.secret(name, fallback), "", nil) + ")")
	}
}

// isVariable reports whether text can be an environment variable's name.
func isVariable(text string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(text)
}

// arguments translates a command line. Variables replace the secrets of flags, variables and headers.
func (t *translator) arguments(words []string) (list []string) {
	after := "" // the preceding flag, if its value is a secret
	// In the command lines of these programs, the values of -t and -u are not secrets.
	isContainer := slices.Contains([]string{"docker", "podman", "nerdctl"}, filepath.Base(words[0]))
	for _, word := range words {
		var e expression
		parts := assignment().FindStringSubmatch(word)
		isFlag := parts != nil && strings.HasPrefix(word, "-")
		header := headerWord().FindStringSubmatch(word)
		switch {
		case after != "" && !isFlag:
			t.template(&e, after, word)
		case parts != nil && parts[2] != "":
			e.text(parts[1] + "=")
			t.template(&e, parts[1], parts[3])
		case config.JoinedPassword(word) != "":
			e.text("-p")
			t.template(&e, "password", config.JoinedPassword(word))
		case header != nil && config.IsSecretFlag(header[1]):
			e.text(header[1] + header[2])
			t.credential(&e, header[1], header[3], false)
		default:
			t.template(&e, "", word)
		}
		list = append(list, e.String())
		if after = ""; isFlag && parts[2] == "" && config.IsSecretFlag(word) && (len(word) > 2 || !isContainer) {
			after = word
		}
	}
	return list
}

// address translates a URL. Variables replace the secrets in it.
func (t *translator) address(url string) string {
	var e expression
	before, query, hasQuery := strings.Cut(url, "?")
	t.template(&e, "", before)
	for i, parameter := range strings.Split(query, "&") {
		switch {
		case !hasQuery:
			return e.String()
		case i == 0:
			e.text("?")
		default:
			e.text("&")
		}
		name, value, hasValue := strings.Cut(parameter, "=")
		e.text(name)
		if hasValue {
			e.text("=")
			t.template(&e, name, value)
		}
	}
	return e.String()
}

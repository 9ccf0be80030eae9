package config

import (
	"errors"
	"net/textproto"
	"slices"
	"strings"

	"go.mau.fi/util/exslices"
	"golang.org/x/net/http/httpguts"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// checkEndpoint reports attributes and blocks that have no effect with the url, command or files of an upstream.
func checkEndpoint(b *hclread.Block) {
	checkOneWay(b)
	isRemote, isLocal, isFiles := b.Has("url"), b.Has("command"), b.Has("files")
	switch {
	case isFiles:
		checkFiles(b)
	case isRemote && !isLocal:
		refuse(b, "env", "command", "A server behind a url gets no environment; use headers.")
		refuse(b, "dir", "command", "A server behind a url is not started here; remove it.")
	case isLocal && !isRemote:
		refuse(b, "headers", "url", "A child process gets no headers; use env.")
		refuse(b, "tls", "url", "A child process is not reached over TLS; remove the block.")
		refuse(b, "assertion", "url", "A child process gets no headers; remove the block.")
		refuse(b, "oauth", "url", "A child process gets no access tokens; give it what it needs in env.")
	}
	if !b.HasErrors() { // errors come before advice
		warnOfSecrets(b, "url", "headers", "env", "command")
		for _, oauth := range b.Inner("oauth") {
			warnOfSecrets(oauth, "client_secret", "token_url")
		}
	}
	if !isFiles {
		refuse(b, "format", "files", "Only prompts from files have a format; remove it.")
		refuse(b, "texts", "files", "Only prompts from files have texts to approve; remove it.")
	}
}

// refuse reports the attribute or the blocks called name, which have no effect without something that is absent.
func refuse(b *hclread.Block, name, without, detail string) {
	if b.Has(name) {
		b.Error(b.ValueRange(name), name+" without "+without, "%s", detail)
	}
	for _, inner := range b.Inner(name) {
		b.Error(inner.Range(), name+" without "+without, "%s", detail)
	}
}

// checkOneWay reports an upstream that has none of url, command and files, or several of them.
func checkOneWay(b *hclread.Block) {
	all := []string{"url", "command", "files"}
	ways := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !b.Has(name) })
	if len(ways) == 0 {
		// Lacks does not count a misspelt url, command or files as absent, because Check has reported it.
		if !slices.ContainsFunc(all, func(name string) bool { return !b.Lacks(name) }) {
			b.Error(b.Range(), "No way to reach the upstream",
				"Set url to reach it over HTTP, command to start it, or files for prompts without a server.")
		}
		return
	}
	for _, further := range ways[1:] {
		b.Error(b.ValueRange(further), "Two ways to reach one upstream", "%s and %s are mutually exclusive; remove one.", ways[0], further)
	}
}

// decodeURL decodes url and checks that the team may reach the address.
func decodeURL(b *hclread.Block, u *Upstream, r reach) {
	if !b.Has("url") {
		return
	}
	u.Transport = StreamableHTTP
	before := b.Reported()
	written, ok := b.Text("url")
	if !ok && b.Reported() == before {
		b.Error(b.ValueRange("url"), "Invalid url", `No address is given; write one like "https://mcp.example.com/mcp".`)
	}
	if !ok {
		return
	}
	u.maskedWords = masks([]hclread.Text{written})
	if written.Unset {
		return // a warning names the unset variable
	}
	parsed, err := parseURL(written.Value)
	if err != nil {
		b.Invalid("upstream URL", written, err)
		return
	}
	u.URL, u.HostGrant = written.Value, r.hostGrant(hostOf(parsed))
	if b.HasBlock("tls") && parsed.Scheme != "https" {
		b.Error(written.At, "tls without https", "%s is not reached over TLS; write https:// or remove the tls block.", written)
	}
	if err := r.checkHost(b, written, parsed); err != nil {
		b.Invalid("url", written, err)
	}
}

// decodeCommand decodes command and checks that the team may run it.
func decodeCommand(b *hclread.Block, u *Upstream, r reach) {
	if !b.Has("command") {
		return
	}
	u.Transport = Stdio
	before := b.Reported()
	words := b.Texts("command")
	for _, w := range words {
		// An unset word becomes empty, so the other words keep their indexes.
		u.Command = append(u.Command, w.Value)
		if strings.Contains(w.Value, "\x00") {
			b.Invalid("command", w, errors.New("contains a zero byte"))
		}
	}
	u.maskedWords = masks(words)
	switch {
	case len(words) == 0 && b.Reported() == before:
		b.Error(b.ValueRange("command"), "Invalid command", "The list is empty; write the program first, then its arguments.")
	case len(words) == 0 || words[0].Unset:
	case words[0].Value == "":
		b.Invalid("command", words[0], errors.New("is not a program; write the program first, then its arguments"))
	default:
		warnOfLine(b, words)
		// Teams may choose any arguments. See allow in README.md.
		if err := r.allow("command", "commands", words[0]); err != nil {
			b.Invalid("command", words[0], err)
		}
	}
}

// decodeDir decodes dir and checks that the team may use the folder.
func decodeDir(b *hclread.Block, u *Upstream, r reach) {
	written, ok := b.Text("dir")
	switch {
	case !ok || written.Unset || !b.Has("command"):
		return
	case written.Value == "":
		b.Invalid("dir", written, errors.New("is empty; name a folder, or remove it"))
		return
	}
	folder, path := b.ResolvePath(""), b.ResolvePath(written.Value)
	err := r.allowDir(folder, path, written)
	if err == nil && r.skipDirs {
		return
	}
	if err == nil {
		u.Dir, err = b.ResolveFolder(written)
	}
	if err == nil {
		err = r.allowResolvedDir(folder, u.Dir, written)
	}
	u.hidesDir = written.Sensitive
	if err != nil {
		b.Invalid("dir", written, err)
	}
}

// warnOfLine warns if the only word of command is a whole command line.
func warnOfLine(b *hclread.Block, words []hclread.Text) {
	fields := strings.Fields(words[0].Value)
	if len(words) > 1 || len(fields) < 2 {
		return
	}
	instead := "each word as an element of its own"
	if !words[0].Sensitive {
		instead = `["` + strings.Join(hideWords(fields), `", "`) + `"]`
	}
	b.Warning(words[0].At, "Command in one word",
		"All of it, blanks included, is the name of one program; for a program with arguments, write %s.", instead)
}

// decodeTransport decodes transport, which turns off the fallback from Streamable HTTP to HTTP+SSE. With
// command, the attribute changes nothing.
func decodeTransport(b *hclread.Block, u *Upstream) {
	var t Transport
	isRemote, isLocal := b.Has("url"), b.Has("command")
	if !hclread.Set(b, "transport", &t, hclread.OneOf(StreamableHTTP, SSE, Stdio)) || isRemote == isLocal {
		return
	}
	if (t == Stdio) != isLocal {
		b.Error(b.ValueRange("transport"), "Transport does not fit",
			"%s and %s go with url, %s with command; change one or remove transport.", StreamableHTTP, SSE, Stdio)
		return
	}
	u.Transport, u.TransportExplicit = t, true
}

// masks returns the texts, with sensitive texts masked, or nil if no text is sensitive.
func masks(texts []hclread.Text) []string {
	if !slices.ContainsFunc(texts, func(t hclread.Text) bool { return t.Sensitive }) {
		return nil
	}
	return exslices.CastFunc(texts, func(t hclread.Text) string {
		if t.Sensitive {
			return masked
		}
		return t.Value
	})
}

func secretMap(
	dst *map[string]Secret, name string, same func(key string) string, check func(key, value string) error,
) hclread.Field {
	return hclread.Custom("map", dst, func(b *hclread.Block) {
		*dst = hclread.SecretMap(b, name, same, func(key, value string) (Secret, error) { return NewSecret(value), check(key, value) })
	})
}

// checkHeader checks a header of an upstream. Its errors do not quote the value.
func checkHeader(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return errors.New("is not a header name; use letters, digits and \"-\"")
	case IsReservedHeader(name):
		return errors.New("is set by the gateway itself; remove it")
	case !httpguts.ValidHeaderFieldValue(value) || value != strings.Trim(value, " \t"):
		return errors.New("has a value with a line break or control character; use trimspace() around file()")
	}
	return nil
}

// IsReservedHeader reports whether the gateway's MCP or HTTP layer sets the header, so that the
// configuration must not.
func IsReservedHeader(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return strings.HasPrefix(name, "Mcp-") || strings.HasPrefix(name, "Content-") || slices.Contains([]string{
		"Host", "Accept", "Accept-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}, name)
}

// checkVariable checks a variable for a command. Its error does not quote the value.
func checkVariable(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
		return errors.New("cannot be in an environment; names have no \"=\", and neither name nor value has a zero byte")
	}
	return nil
}

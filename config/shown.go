package config

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// ShownFile is a file of a configuration as it is in use, without anything sensitive.
type ShownFile struct {
	// Name is the path in the folder, with slashes.
	Name string `json:"name"`
	// Kept says that the text stands in for that of the file, which has mistakes; see
	// [LoadLastGood].
	Kept bool `json:"kept,omitempty"`
	// Text is HCL that can be loaded: literals of secrets are masked, and env and file are called.
	Text string `json:"text"`
}

// sources are the texts of files in use.
type sources struct {
	isFolder bool
	texts    []sourceText
}

type sourceText struct {
	name    string
	content []byte
	isKept  bool
}

func newSources(r *hclread.Reader, opts Options) *sources {
	all := &sources{isFolder: r.IsFolder()}
	for _, file := range r.SoundFiles() {
		name := r.InFolder(file.Path)
		_, isKept := opts.Texts[name]
		all.texts = append(all.texts, sourceText{name, file.Content, isKept})
	}
	return all
}

// Shown returns the files of a loaded configuration with those of their blocks at the top level that
// are wanted. A file without any is left out.
func (c *Config) Shown(wants func(blockType, label string) bool) []ShownFile {
	if c.sources == nil {
		return nil
	}
	// Texts are parsed again, since syntax trees take much more memory than they do.
	r, m := hclread.New(rootSchema(), hclread.Options{}), &masker{secrets: map[string]*strings.Replacer{}}
	for _, u := range c.Upstreams() {
		u.URLs, u.Command = nil, nil // which are to be shown, but for what their names tell
		secrets := u.Mask().secrets
		// Of those that begin alike, the replacer takes the first.
		slices.SortFunc(secrets, func(a, b maskedText) int { return cmp.Compare(len(b.text), len(a.text)) })
		var masks []string
		for _, secret := range secrets {
			masks = append(masks, secret.text, masked)
		}
		m.secrets[u.Name] = strings.NewReplacer(masks...)
	}
	confined := ""
	if c.sources.isFolder {
		confined = "team"
	}
	var all []ShownFile
	for _, source := range c.sources.texts {
		r.Parse(source.name, source.content)
		text := r.Show(source.name, m, confined, wants)
		if text == "" {
			continue
		}
		if source.isKept {
			text = "# In use in place of this file, which has mistakes.\n" + text
		}
		all = append(all, ShownFile{source.name, source.isKept, text})
	}
	return all
}

// masker masks the secrets of files that are shown.
type masker struct {
	secrets map[string]*strings.Replacer // by upstream
	hashes  uint16                       // that stand for others, each of which may be there once
}

// Secret returns a text of the form that the attribute has.
func (m *masker) Secret(attribute, text string) string {
	switch attribute {
	case "sha256", "token_sha256", "cursor_keys":
		m.hashes++
		standIn := [32]byte{30: byte(m.hashes >> 8), 31: byte(m.hashes)}
		if attribute == "cursor_keys" {
			return base64.StdEncoding.EncodeToString(standIn[:])
		}
		return hex.EncodeToString(standIn[:])
	case "store":
		text = hideParameters(storeUser().ReplaceAllString(text, "${1}:"+masked+"@"))
		if _, err := parseStore(text); err != nil { // a part of it comes from outside, such as a port
			scheme, _, _ := strings.Cut(text, ":")
			return cmp.Or(scheme, "redis") + "://masked.invalid"
		}
		return text
	}
	return masked
}

// storeUser matches the scheme of a store's address, and user and password.
var storeUser = hclread.Lazily(`^(rediss?://)[^/?#]*@`)

// Words masks what a command or an address has of secrets, as far as names tell, and the secrets of
// the upstream itself.
func (m *masker) Words(upstream, attribute string, words []string) []string {
	shown := slices.Clone(words)
	if attribute == "command" {
		shown = hideWords(words)
	}
	for i, word := range shown {
		word = hideParameters(word)
		if secrets := m.secrets[upstream]; secrets != nil { // nil for what is not in an upstream
			word = secrets.Replace(word)
		}
		shown[i] = word
	}
	return shown
}

// MayShowDefault keeps the defaults of addresses, which must be valid. What a command takes from a
// variable is likely to be a secret.
func (m *masker) MayShowDefault(attribute, variable string) bool {
	return attribute != "command" && !IsSecretName(variable)
}

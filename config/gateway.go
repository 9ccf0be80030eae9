package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Bounds of single settings.
const (
	maxPageSize  = 1000
	maxSeparator = 8
	maxCount     = 1<<31 - 1
)

// anonymous is the subject of callers without a token.
const anonymous = "anonymous"

// hashToken is the command that prints the hash of a token, for remedies.
const hashToken = `printf %s "$token" | sha256sum`

// decode turns the blocks of all files into values. Those that others depend on come first.
func (l *loader) decode() *Config {
	l.checkTop()
	l.teams = l.declared("team")
	cfg := &Config{
		Gateway: single(l, "gateway", l.gateway),
		Admin:   single(l, "admin", l.admin),
	}
	if len(l.top("auth")) > 0 {
		auth := single(l, "auth", l.auth)
		cfg.Auth = &auth
	}
	l.checkSources(cfg)
	l.checkPublicURL(cfg)
	l.checkListeners(cfg)
	l.separator = cfg.Gateway.Separator
	for _, f := range l.top("hide") {
		cfg.Hides = append(cfg.Hides, l.hide(f))
	}
	l.decodeGrants(l.top("allow"))
	l.reserve()
	for _, f := range l.top("team") {
		cfg.Teams = append(cfg.Teams, l.team(f))
	}
	l.checkShapes()
	return cfg
}

// checkTop reports what may not stand at the top level of its file.
func (l *loader) checkTop() {
	known := schema{
		single:   []string{"gateway", "admin", "auth"},
		labelled: []string{"hide", "allow", "team"},
		elsewhere: map[string]string{
			"prompt": "a team block", "limit": "gateway, a team or an expose block", "screen": "gateway or a team block", "lock": "gateway or a team block",
		},
	}
	var all hclsyntax.Blocks
	for _, src := range l.sources {
		l.checkAttributes(src.attrs, known, "")
		l.checkOwnership(src)
		all = append(all, src.blocks...)
	}
	l.checkBlocks(all, known, "")
}

// checkOwnership reports what stands beside a team block: who may change the file of a team must not be
// able to change more than that.
func (l *loader) checkOwnership(src *source) {
	teams := slices.ContainsFunc(src.blocks, func(b *hclsyntax.Block) bool { return b.Type == "team" })
	if !l.folder || !teams {
		return
	}
	for _, b := range src.blocks {
		if b.Type != "team" {
			l.error(b.DefRange(), "Not in a team's file",
				"In a folder, a file that holds a team block holds nothing else; move %s to a file of the gateway's owner.", b.Type)
		}
	}
}

// top returns the readers of the blocks of a type in all files.
func (l *loader) top(blockType string) []fields {
	var top []fields
	for _, src := range l.sources {
		for _, b := range src.blocks {
			if b.Type == blockType {
				top = append(top, l.open(b))
			}
		}
	}
	return top
}

// single reads a block that stands once; an empty one when it is absent. Further ones were reported, and are
// read for the mistakes in them.
func single[T any](l *loader, blockType string, read func(fields) T) T {
	all := l.top(blockType)
	if len(all) == 0 {
		return read(l.open(&hclsyntax.Block{Type: blockType, Body: &hclsyntax.Body{}}))
	}
	value := read(all[0])
	for _, f := range all[1:] {
		read(f)
	}
	return value
}

func (l *loader) gateway(f fields) Gateway {
	f.items(schema{
		attributes: []string{
			"listen", "path", "public_url", "page_size", "separator", "cursor_keys",
			"allowed_hosts", "allowed_origins", "trusted_proxies", "conflict", "instructions", "state_dir",
			"lock",
		},
		single:   []string{"tls", "limit"},
		labelled: []string{"screen"},
	})
	g := Gateway{
		Listen:    DefaultListen,
		Path:      DefaultPath,
		PageSize:  DefaultPageSize,
		Separator: DefaultSeparator,
		Conflict:  ConflictDrop,
	}
	field(f, "listen", public, &g.Listen, checked(checkListen))
	field(f, "path", public, &g.Path, checked(checkPath))
	field(f, "public_url", public, &g.PublicURL, parsePublicURL)
	f.count("page_size", maxPageSize, &g.PageSize)
	if f.has("separator") && !field(f, "separator", shown, &g.Separator, checked(checkSeparator)) {
		g.Separator = "" // prefixes cannot be checked
	}
	g.CursorKeys = list(f, "cursor_keys", secret, parseKey)
	g.AllowedHosts = list(f, "allowed_hosts", public, checked(checkHost))
	g.AllowedOrigins = list(f, "allowed_origins", public, checked(checkOrigin))
	g.TrustedProxies = list(f, "trusted_proxies", public, parseProxy)
	for _, inner := range f.inner("tls") {
		g.TLS = inner.serverTLS()
	}
	field(f, "conflict", shown, &g.Conflict, oneOf([]Conflict{ConflictDrop, ConflictFirst}))
	field(f, "instructions", public, &g.Instructions, checked(anything))
	field(f, "state_dir", public, &g.StateDir, checked(checkFolder))
	g.Lock = f.locking()
	if g.Limit = f.limit(); g.Limit != nil {
		g.Limit.Block = "gateway"
	}
	g.Screens = f.screens()
	return g
}

func (l *loader) admin(f fields) Admin {
	f.items(schema{attributes: []string{"listen", "token_sha256"}, later: []string{"tls"}})
	a := Admin{Listen: DefaultAdminListen}
	field(f, "listen", public, &a.Listen, checked(checkListen))
	field(f, "token_sha256", secret, &a.TokenSHA256, func(s string) (Key, error) {
		hash, err := parseHash(s)
		return NewKey(hash), err
	})
	return a
}

func (l *loader) auth(f fields) Auth {
	f.items(schema{
		attributes: []string{"anonymous"},
		labelled:   []string{"token", "jwt"},
	})
	var a Auth
	f.flag("anonymous", &a.Anonymous)
	for _, inner := range f.inner("token") {
		a.Tokens = append(a.Tokens, l.token(inner))
	}
	for _, inner := range f.inner("jwt") {
		a.JWTs = append(a.JWTs, l.jwt(inner))
	}
	if !a.Anonymous && len(a.Tokens) == 0 && !f.holds("token", "jwt") && !l.asksForCertificates() {
		f.error(f.block.DefRange(), "Nobody can authenticate", "Give auth a token or a jwt block, or set anonymous = true to let everybody see what is exposed to \"*\".")
	}
	return a
}

// holds reports whether a block of one of the types stands in the block, wrong or not.
func (f fields) holds(types ...string) bool {
	return slices.ContainsFunc(f.block.Body.Blocks, func(b *hclsyntax.Block) bool { return slices.Contains(types, b.Type) })
}

func (l *loader) token(f fields) Token {
	f.items(schema{attributes: []string{"sha256", "groups", "as"}})
	t := Token{Subject: f.label(), Place: f.place()}
	if f.labelled() {
		l.unique("token", t.Subject, f.labelRange())
		if err := checkSubject(t.Subject); err != nil {
			f.error(f.labelRange(), "Invalid token label", "%q %s.", t.Subject, err)
		}
	}
	if f.lacks("sha256") {
		f.error(f.block.DefRange(), "Missing sha256", "Set sha256 to the hash of the token: %s prints it.", hashToken)
	}
	if field(f, "sha256", secret, &t.SHA256, parseHash) {
		l.uniqueHash(f, t)
	}
	t.Groups = list(f, "groups", shown, checked(checkGroup))
	t.As = l.as(f, "tokens")
	return t
}

// uniqueHash reports a token that would authenticate two subjects.
func (l *loader) uniqueHash(f fields, t Token) {
	key := "hash " + string(t.SHA256[:])
	if first, ok := l.taken[key]; ok {
		f.error(f.at("sha256"), "Duplicate token", "The token at %s has the same hash; give each subject a token of its own.", first)
		return
	}
	l.taken[key] = t.Place
}

// checkListeners reports listeners that leave the gateway open or that get in each other's way.
func (l *loader) checkListeners(cfg *Config) {
	gatewayHost, gatewayPort, _ := net.SplitHostPort(cfg.Gateway.Listen)
	adminHost, adminPort, _ := net.SplitHostPort(cfg.Admin.Listen)
	gateways, admins := l.top("gateway"), l.top("admin")
	if len(gateways) > 0 && cfg.Auth == nil && !loopback(gatewayHost) && !l.broken() {
		l.error(gateways[0].at("listen"), "Open to everybody",
			"Without an auth block everybody is anonymous and in every team, so only loopback may be listened on; add auth or listen on 127.0.0.1.")
	}
	clash := gatewayPort == adminPort && gatewayPort != "0" && overlap(gatewayHost, adminHost)
	switch {
	case clash && len(admins) > 0:
		l.error(admins[0].at("listen"), "Address used twice", "gateway.listen and admin.listen are the same address; change one.")
	case clash && len(gateways) > 0 && !l.broken():
		l.error(gateways[0].at("listen"), "Address used twice", "admin.listen is %s by default; change one of the two.", DefaultAdminListen)
	}
	// What stands in a file that does not parse is not known to be the default.
	if len(gateways) > 0 || !l.broken() {
		l.listeners = append(l.listeners, listener{"gateway.listen", gatewayHost, gatewayPort})
	}
	if len(admins) > 0 || !l.broken() {
		l.listeners = append(l.listeners, listener{"admin.listen", adminHost, adminPort})
	}
}

func checkFolder(s string) error {
	if s == "" || strings.Contains(s, "\x00") {
		return errors.New(`is not the path of a folder; write it like "/var/lib/promptweir", or leave it out to keep nothing`)
	}
	return nil
}

func checkSeparator(s string) error {
	if n := utf8.RuneCountInString(s); n < 1 || n > maxSeparator || !printable(s) {
		return fmt.Errorf(`is not 1 to %d characters without white space; write it like "."`, maxSeparator)
	}
	return nil
}

// parseKey reads the standard and the URL alphabet, padded or not.
func parseKey(s string) (Key, error) {
	b, err := parseBase64(s)
	if err != nil || len(b) != len(Key{}.bytes) {
		return Key{}, errors.New("is not base64 of 32 bytes; make one with: openssl rand -base64 32")
	}
	return NewKey([32]byte(b)), nil
}

func parseBase64(s string) ([]byte, error) {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	b, err := base64.RawStdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	return b, nil
}

func checkSubject(s string) error {
	if s == anonymous {
		return errors.New("is the name of callers without a token; choose another label")
	}
	if !printable(s) {
		return errors.New("cannot be a subject; use a label without spaces")
	}
	return nil
}

func checkGroup(s string) error {
	if strings.HasPrefix(s, "group:") {
		return errors.New(`has "group:" in front; write the name alone`)
	}
	if !printable(s) {
		return errors.New("is not a group; use a name without spaces")
	}
	return nil
}

func parseHash(s string) (hash [sha256.Size]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != sha256.Size {
		return hash, errors.New("is not 64 hexadecimal digits; " + hashToken + " prints the hash of a token")
	}
	hash = [sha256.Size]byte(b)
	if hash == sha256.Sum256(nil) {
		return hash, errors.New("is the hash of an empty token; set $token first, then " + hashToken + " prints its hash")
	}
	return hash, nil
}

// isName reports whether s can be the label of a team or an upstream.
func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	})
}

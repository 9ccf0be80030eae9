package config

import (
	"errors"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// AuditToStdout is the path that means standard output.
const AuditToStdout = "stdout"

// Audit is the audit block.
type Audit struct {
	Path             string // a file, or [AuditToStdout]
	Arguments        AuditArguments
	Required, Access bool
}

// AuditArguments selects the recorded parts of a get's arguments.
type AuditArguments string

// The values of the arguments attribute.
const (
	AuditNames  AuditArguments = "names"  // names only
	AuditHash   AuditArguments = "hash"   // names and a keyed hash of each value
	AuditValues AuditArguments = "values" // names and values
)

func (a *Audit) table() []hclread.Attribute {
	return []hclread.Attribute{
		hclread.FromEnvironment("path", hclread.String(&a.Path, hclread.Checked(checkAuditPath)),
			"The file to append to, relative to the working directory, or `\"stdout\"`. SIGHUP opens it again.").
			Required(`An audit log needs a file: set path, for example to "/var/log/promptweir/audit.jsonl", or to %q.`, AuditToStdout),
		hclread.Plain("arguments", hclread.String(&a.Arguments, hclread.OneOf(AuditNames, AuditHash, AuditValues)),
			"A get's arguments: `\"names\"`; `\"hash\"`, also values' hashes, keyed by `cursor_keys`; or `\"values\"`."),
		hclread.Plain("required", hclread.Flag(&a.Required),
			"Refuses unrecorded requests (`audit`); with `anonymous`, set a `limit` too. Otherwise a full queue loses lines, and counts them."),
		hclread.Plain("access", hclread.Flag(&a.Access), "Also records lists and all other requests."),
	}
}

func newAudit() *Audit { return &Audit{Arguments: AuditNames} }

func decodeAudit(b *hclread.Block) Audit {
	a := newAudit()
	b.Decode(a.table())
	return *a
}

// checkAuditPath checks a path without looking for the file, which the gateway creates.
func checkAuditPath(s string) error {
	if s == "" || strings.HasSuffix(s, "/") || strings.Contains(s, "\x00") {
		return errors.New(`is not the path of a file; write it like "/var/log/promptweir/audit.jsonl"`)
	}
	return nil
}

// checkAuditHash warns if each process would hash the same value differently.
func checkAuditHash(r *hclread.Reader, cfg *Config) {
	blocks := r.Blocks("audit")
	if cfg.Audit == nil || cfg.Audit.Arguments != AuditHash || len(cfg.Gateway.CursorKeys) > 0 {
		return
	}
	r.Warning(blocks[0].ValueRange("arguments"), "No cursor_keys",
		"The hashes are keyed with cursor_keys. Without them, each process makes its own key, so a value's hash changes at "+
			"every restart and differs between replicas. Set gateway.cursor_keys.")
}

// checkAuditLimit warns if anonymous callers can fill the disk that every request depends on.
func checkAuditLimit(r *hclread.Reader, cfg *Config) {
	limit := cfg.Gateway.Limit
	if cfg.Audit == nil || !cfg.Audit.Required || cfg.Auth == nil || !cfg.Auth.Anonymous || limit != nil && limit.Rate > 0 {
		return
	}
	r.Warning(r.Blocks("audit")[0].ValueRange("required"), "No limit for anonymous callers",
		"Every get by an anonymous caller writes a line, and once the disk is full, required "+
			"refuses everybody. Set gateway { limit { rate = 10 } }, or another number of requests per second.")
}

// DefaultAdminListen is the default address for health, metrics and the console.
const DefaultAdminListen = "127.0.0.1:8081"

// Admin is the admin block.
type Admin struct {
	Listen      string
	TokenSHA256 Key   // zero if there is no token
	Place       Place // the zero value if there is no block
}

func (a *Admin) table() []hclread.Attribute {
	// A Key masks itself when the Config is printed; an array would not.
	parse := func(s string) (Key, error) {
		hash, err := parseHash(s)
		return Key{hash}, err
	}
	return []hclread.Attribute{
		hclread.FromEnvironment("listen", hclread.String(&a.Listen, hclread.Checked(checkListen)), "`HOST:PORT`."),
		hclread.Secret("token_sha256", hclread.String(&a.TokenSHA256, parse),
			"The SHA-256 of the operators' token, such as `sha256(env(\"ADMIN_TOKEN\"))`. Without it, all callers on loopback are operators."),
	}
}

func newAdmin() *Admin { return &Admin{Listen: DefaultAdminListen} }

func decodeAdmin(b *hclread.Block) Admin {
	a := newAdmin()
	a.Place = placeOf(b.Range())
	b.Decode(a.table())
	return *a
}

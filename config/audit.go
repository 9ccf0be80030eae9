package config

import (
	"errors"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// AuditToStdout is the path that stands for standard output.
const AuditToStdout = "stdout"

// Audit is the audit block: where the gateway records who got what, and how much of it.
type Audit struct {
	// Path is the file that lines are appended to, relative to the working directory, or
	// [AuditToStdout].
	Path string
	// Arguments says what of a get's arguments is recorded.
	Arguments AuditArguments
	// Required refuses what cannot be recorded.
	Required bool
	// Access also records lists and other requests.
	Access bool
}

// AuditArguments says what of a get's arguments is recorded.
type AuditArguments string

// The values of the arguments attribute.
const (
	AuditNames  AuditArguments = "names"  // their names only
	AuditHash   AuditArguments = "hash"   // and a keyed hash of each value
	AuditValues AuditArguments = "values" // and each value
)

func auditSchema() hclread.Schema {
	return hclread.Schema{Plain: []string{"arguments", "required", "access"}, External: []string{"path"}}
}

// decodeAudit decodes the audit block, of which there is none if it was not written.
func decodeAudit(b *hclread.Block) Audit {
	a := Audit{Arguments: AuditNames}
	b.Require("path", `An audit log needs a file: set path, for example to "/var/log/promptweir/audit.jsonl", or to %q.`,
		AuditToStdout)
	hclread.Set(b, "path", &a.Path, hclread.Checked(checkAuditPath))
	hclread.Set(b, "arguments", &a.Arguments, hclread.OneOf(AuditNames, AuditHash, AuditValues))
	hclread.Bool(b, "required", &a.Required)
	hclread.Bool(b, "access", &a.Access)
	return a
}

// checkAuditPath does not look for the file, which is made when the gateway starts.
func checkAuditPath(s string) error {
	if s == "" || strings.HasSuffix(s, "/") || strings.Contains(s, "\x00") {
		return errors.New(`is not the path of a file; write it like "/var/log/promptweir/audit.jsonl"`)
	}
	return nil
}

// checkAuditHash warns where hashes of one process cannot be compared with those of another.
func checkAuditHash(r *hclread.Reader, cfg *Config) {
	blocks := r.Blocks("audit")
	if cfg.Audit == nil || cfg.Audit.Arguments != AuditHash || len(cfg.Gateway.CursorKeys) > 0 {
		return
	}
	r.Warning(blocks[0].ValueRange("arguments"), "No cursor_keys", "The hashes are keyed with "+
		"cursor_keys. Without them, each process makes its own key, so a value's hash changes at "+
		"every restart and differs between replicas. Set gateway.cursor_keys.")
}

// checkAuditLimit warns where anybody can fill the disk of a log without which nobody is served.
func checkAuditLimit(r *hclread.Reader, cfg *Config) {
	limit := cfg.Gateway.Limit
	if cfg.Audit == nil || !cfg.Audit.Required || cfg.Auth == nil || !cfg.Auth.Anonymous || limit != nil && limit.Rate > 0 {
		return
	}
	r.Warning(r.Blocks("audit")[0].ValueRange("required"), "No limit for anonymous callers",
		"Every get by an anonymous caller writes a line, and once the disk is full, required "+
			"refuses everybody. Set gateway { limit { rate = 10 } }, or another number of requests per second.")
}

// DefaultAdminListen is where health and metrics are served.
const DefaultAdminListen = "127.0.0.1:8081"

// Admin is the admin block.
type Admin struct {
	// Listen is HOST:PORT.
	Listen string
	// TokenSHA256 is the hash of the token that opens the pages to callers beyond loopback; zero if
	// no token does.
	TokenSHA256 Key
	// Place is the zero value without a block.
	Place Place
}

func adminSchema() hclread.Schema {
	return hclread.Schema{
		External: []string{"listen"},
		Secret:   []string{"token_sha256"},
		Foreign: map[string]string{"tls": "The admin listener has no TLS of its own: remove it, " +
			"and put a proxy in front."},
	}
}

func decodeAdmin(b *hclread.Block) Admin {
	a := Admin{Listen: DefaultAdminListen, Place: placeOf(b.Range())}
	hclread.Set(b, "listen", &a.Listen, hclread.Checked(checkListen))
	// A Key, unlike the plain array of a Token, masks itself in every print of the Config.
	hclread.Set(b, "token_sha256", &a.TokenSHA256, func(s string) (Key, error) {
		hash, err := parseHash(s)
		return Key{hash}, err
	})
	return a
}

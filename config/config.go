package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Config is one checked configuration. It never changes.
type Config struct {
	Gateway Gateway
	Admin   Admin
	// Audit is nil if there is no audit block. Then nothing is recorded.
	Audit *Audit
	// Cluster is nil if there is no cluster block. Then the gateway shares nothing with replicas.
	Cluster *Cluster
	// Auth is nil if there is neither an auth block nor a client_ca_file. Then everyone is anonymous
	// and in every team.
	Auth *Auth
	// Hides are the hide blocks outside of teams, in configuration order.
	Hides []Rule
	// Teams are in configuration order.
	Teams []Team
	// Lock contains the approved definitions. It is empty if there is no lock file, or if no
	// lock attribute requires it.
	Lock Lock
	// TeamFiles contains the loaded texts of the files with team blocks, for the next [LoadTolerant].
	TeamFiles TeamFiles
	// Hash identifies the texts of all configuration files. It does not depend on the folder's path,
	// so replicas with the same files have the same Hash.
	Hash string

	// Files are in the order in which they were read. Their names are relative to Folder.
	Files  []File
	Folder string
}

// File is one file of a configuration.
type File struct {
	// Name is the path in the folder, with slashes.
	Name string `json:"name"`
	// SHA256 is the hash of the loaded text, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// TeamNames returns the names of all teams in the order of the configuration.
func (c *Config) TeamNames() []string {
	return exslices.CastFunc(c.Teams, func(t Team) string { return t.Name })
}

// Upstreams returns the upstreams of all teams in configuration order, in a new slice.
func (c *Config) Upstreams() []Upstream {
	var all []Upstream
	for _, t := range c.Teams {
		all = append(all, t.Upstreams...)
	}
	return all
}

// Relative returns a path relative to Folder, with slashes. It is the same on all replicas.
func (c *Config) Relative(path string) string {
	return hclread.Relative(c.Folder, path)
}

// Place is a location in the configuration.
type Place struct {
	// File is the path, beginning with the --config argument.
	File string
	// Line is 0 for a whole file or a folder.
	Line int
}

// String returns a location as FILE:LINE, or as FILE if Line is 0. The zero Place becomes "".
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

func placeOf(r hcl.Range) Place { return Place{File: r.Filename, Line: r.Start.Line} }

// Options control the sources of values. With the zero value, Load reads only the files and the
// environment of the process.
type Options struct {
	// LookupEnv finds environment variables; nil means [os.LookupEnv].
	LookupEnv func(string) (string, bool)
	// AllowUnsetEnv makes an unset variable without a default a warning, for commands that start nothing.
	// Values computed from it are empty and unchecked.
	AllowUnsetEnv bool
	// SkipLockFile makes Load ignore the lock file, for the command that writes the lock file.
	SkipLockFile bool
	// SkipDirs makes Load accept a dir attribute whose folder does not exist, for a command that
	// writes a configuration for another machine.
	SkipDirs bool
	// Texts replace the contents of files in the folder. The keys are paths relative to the folder,
	// with slashes.
	Texts map[string]Secret
	// OnRead is called with each path before Load reads it or looks for it: folders, configuration
	// files, and the files that they name. It is also called with each missing folder that a dir
	// attribute names. It may be nil.
	OnRead func(path string)

	// Only [LoadTolerant] sets these fields. previous contains the texts that the gateway uses now.
	// hasReplaced is true if Texts replace files with errors.
	previous    *TeamFiles
	hasReplaced bool
}

// Load reads the file or the folder at path. The Config is nil exactly when the Diagnostics have
// errors.
func Load(path string, opts Options) (*Config, Diagnostics) {
	cfg, _, diags := read(path, opts)
	return cfg, diags
}

func read(path string, opts Options) (*Config, *decoder, Diagnostics) {
	d := newDecoder(opts)
	d.ReadPath(path)
	cfg := d.config()
	// readLockFile may add a warning, so it comes before Finish.
	lock, lockReport := readLockFile(d.Reader, path, opts)
	cfg.Lock = lock
	diags := Diagnostics{d.Finish().Merge(lockReport)}
	if diags.HasErrors() {
		return nil, d, diags // never an incomplete configuration, which could lack a hide block
	}
	cfg.TeamFiles, cfg.Hash, cfg.Folder = newTeamFiles(d.Reader), hashTexts(d.Reader), d.Root()
	for _, file := range d.SoundFiles() {
		sum := sha256.Sum256(file.Content)
		cfg.Files = append(cfg.Files, File{d.InFolder(file.Path), hex.EncodeToString(sum[:])})
	}
	return cfg, d, diags
}

// AdminListen returns the admin listener of a configuration. It ignores errors, because the files
// may have changes that the running gateway has not loaded.
func AdminListen(path string, opts Options) string {
	d := newDecoder(opts)
	d.ReadPath(path)
	return d.config().Admin.Listen
}

// CheckText returns the diagnostics of a configuration in memory. It reads no lock file.
func CheckText(text string, opts Options) Diagnostics {
	d := newDecoder(opts)
	d.Parse("", []byte(text))
	d.config()
	return Diagnostics{d.Finish()}
}

func newDecoder(opts Options) *decoder {
	texts := make(map[string]string, len(opts.Texts))
	for name, text := range opts.Texts {
		texts[name] = text.Reveal()
	}
	d := &decoder{options: opts, cursorKeys: hclread.NewReferences()}
	d.Reader = hclread.New(rootSchema(), hclread.Options{
		Texts:         texts,
		LookupEnv:     opts.LookupEnv,
		AllowUnsetEnv: opts.AllowUnsetEnv,
		OnRead:        opts.OnRead,
	})
	return d
}

// decoder turns the blocks of one configuration into values. Its fields serve the rules that involve
// several blocks.
type decoder struct {
	*hclread.Reader

	options   Options
	teams     teamNames
	names     namespace
	listeners listeners
	allowed   allowed
	overrides overrides
	// groups contains the names of all groups. It is nil if the configuration does not tell them.
	groups []string
	// assertions is nil until the gateway block is decoded.
	assertions *assertions
	// cursorKeys records the variables and files of cursor_keys and signing_keys.
	cursorKeys hclread.References
}

// rootSchema describes the whole language.
func rootSchema() hclread.Schema {
	return hclread.Schema{
		Blocks: []hclread.BlockSchema{
			{Type: "gateway", Schema: gatewaySchema()},
			{Type: "admin", Schema: hclread.Schema{
				Attributes: newAdmin().table(),
				Foreign:    map[string]string{"tls": "The admin listener has no TLS of its own: remove it, and put a proxy in front."},
			}},
			{Type: "audit", Schema: hclread.Schema{Attributes: newAudit().table()}},
			{Type: "cluster", Schema: clusterSchema()},
			{Type: "auth", Schema: authSchema()},
			{Type: "hide", Labelled: true, Schema: hideSchema()},
			{Type: "allow", Labelled: true, Schema: hclread.Schema{Attributes: allowed{}.newGrants("").table()}},
			{Type: "team", Labelled: true, Schema: teamSchema()},
		},
		Foreign: foreignServers(`team "NAME" { upstream "NAME" { … } }`),
	}
}

// config decodes all blocks, in the order of their dependencies.
func (d *decoder) config() *Config {
	d.checkOwnership()
	d.Check() // first, so that a misspelt attribute is not reported as missing, too
	d.teams = d.Labels("team")
	if d.options.hasReplaced { // a rule may name a team whose file is left out
		d.teams = append(d.teams, anyTeam)
	}
	cfg := d.settings()
	d.groups = groupsOf(d.Reader, cfg.Auth)
	d.names = namespace{separator: cfg.Gateway.Separator, owners: map[string]claim{}}
	// An upstream's address must not be the address of a listener.
	d.listeners = newListeners(d.Reader, cfg)
	d.assertions = &assertions{
		signs:     len(d.Blocks("gateway")) == 0 && d.Broken() || d.Has("gateway", "signing_keys") && d.Has("gateway", "public_url"),
		audiences: map[string]*Upstream{},
	}
	for _, b := range d.Blocks("hide") {
		cfg.Hides = append(cfg.Hides, decodeHide(b))
	}
	// Grants decide which variables and files the expressions of a team may read.
	d.allowed = decodeAllowed(d.Reader, d.teams, d.cursorKeys)
	d.checkLabels()
	cfg.Teams = d.allTeams()
	// Call completeFiles after decoding all teams: any block may read a file as a value, and such a
	// file must not become a prompt.
	completeFiles(d.Reader, cfg, d.cursorKeys)
	// A prompt block may name a prompt whose upstream is in a later file.
	d.names.checkLookalikes(d.Reader)
	d.overrides.check(d.Reader, d.names, d.allowed)
	d.separateSkills(cfg)
	d.warnUnknownFacts(cfg)
	d.reserve()
	return cfg
}

// settings decodes the blocks that may appear once.
func (d *decoder) settings() *Config {
	ids := &identities{hashes: map[[sha256.Size]byte]Place{}}
	cfg := &Config{
		Gateway: only(d.Reader, "gateway", func(b *hclread.Block) Gateway { return decodeGateway(b, ids, d.cursorKeys) }),
		Admin:   only(d.Reader, "admin", decodeAdmin),
	}
	cfg.Audit = optional(d.Reader, "audit", decodeAudit)
	cfg.Cluster = optional(d.Reader, "cluster", decodeCluster)
	cfg.Auth = optional(d.Reader, "auth", func(b *hclread.Block) Auth { return decodeAuth(b, ids) })
	cfg.Auth = withCertificates(cfg.Auth, cfg.Gateway.TLS)
	ids.check(d.Reader)
	checkPublicURL(d.Reader, cfg)
	checkAudiences(d.Reader, cfg)
	checkOpaqueOrigins(d.Reader, cfg)
	checkAuditHash(d.Reader, cfg)
	checkAuditLimit(d.Reader, cfg)
	checkCluster(d.Reader, cfg)
	return cfg
}

// only decodes a block that may appear once, or an empty block if it is absent. It also decodes
// duplicates, which Check has reported, to find their other errors.
func only[T any](r *hclread.Reader, blockType string, decode func(*hclread.Block) T) T {
	blocks := r.Blocks(blockType)
	if len(blocks) == 0 {
		return decode(r.Absent(blockType))
	}
	value := decode(blocks[0])
	for _, b := range blocks[1:] {
		decode(b)
	}
	return value
}

// optional is [only], but returns nil if the block is absent.
func optional[T any](r *hclread.Reader, blockType string, decode func(*hclread.Block) T) *T {
	if len(r.Blocks(blockType)) == 0 {
		return nil
	}
	return new(only(r, blockType, decode))
}

// checkOwnership reports blocks beside a team block, because the authors of a team's file must not
// change other settings or cause errors in other files. It skips blocks of unknown types, which
// Check reports.
func (d *decoder) checkOwnership() {
	if !d.IsFolder() {
		return
	}
	isTeamFile := map[string]bool{}
	for _, b := range d.Blocks("team") {
		isTeamFile[b.Range().Filename] = true
	}
	misplaced := map[string][]*hclread.Block{}
	for _, b := range d.TopBlocks() {
		if d.Knows(b.Type()) && b.Type() != "team" && isTeamFile[b.Range().Filename] {
			misplaced[b.Range().Filename] = append(misplaced[b.Range().Filename], b)
		}
	}
	for _, blocks := range misplaced { // one report per file, which names all misplaced types
		types := exslices.DeduplicateUnsorted(exslices.CastFunc(blocks, (*hclread.Block).Type))
		for _, b := range blocks {
			b.Drop()
		}
		place := "to a file without one, such as gateway.hcl"
		if slices.Contains(types, "hide") {
			place += ", or a hide for the team's own prompts into the team block"
		}
		d.Error(blocks[0].Range(), "Not in a team's file", "In a folder, a file with a team block may contain nothing else; move %s %s.",
			strings.Join(types, ", "), place)
	}
}

package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Config is one checked configuration. After [Load] nobody checks it again, and nobody changes it.
type Config struct {
	Gateway Gateway
	Admin   Admin
	// Audit is nil without an audit block: nothing is recorded.
	Audit *Audit
	// Cluster is nil without a cluster block: the gateway shares nothing with replicas.
	Cluster *Cluster
	// Auth is nil if there is neither an auth block nor a client_ca_file: everyone is anonymous and
	// in every team.
	Auth *Auth
	// Hides are the hide blocks outside of teams, in configuration order.
	Hides []Rule
	// Teams are in configuration order.
	Teams []Team
	// Lock holds the approved definitions; it is empty if no lock attribute asks for them or there
	// is no lock file.
	Lock Lock
	// TeamFiles are the files with teams, as they were written.
	TeamFiles TeamFiles
	// Hash is equal for equal texts of all files, wherever they are: replicas can be compared by
	// it.
	Hash string

	// Files are the files that were read, in order, and Folder is the one that their names are in.
	Files  []File
	Folder string
}

// File is one file of a configuration.
type File struct {
	// Name is the path in the folder, with slashes.
	Name string `json:"name"`
	// SHA256 is the hash of the text in use, in hexadecimal.
	SHA256 string `json:"sha256"`
}

// Upstreams returns the upstreams of all teams in configuration order, in a slice of the caller's
// own.
func (c *Config) Upstreams() []Upstream {
	var all []Upstream
	for _, t := range c.Teams {
		all = append(all, t.Upstreams...)
	}
	return all
}

// Place is the source location of something in the configuration.
type Place struct {
	// File is the path as it was found from the --config argument.
	File string
	// Line is 0 for all of the file, or a folder.
	Line int
}

// String writes a location as FILE:LINE.
func (p Place) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// placeOf returns where a range begins.
func placeOf(r hcl.Range) Place { return Place{File: r.Filename, Line: r.Start.Line} }

// Options say where values come from. The zero value is what serve needs.
type Options struct {
	// LookupEnv finds environment variables; nil means [os.LookupEnv].
	LookupEnv func(string) (string, bool)
	// AllowUnsetEnv makes an unset variable without a default a warning, for the commands that
	// start nothing. What an expression computes from it is left empty and unchecked.
	AllowUnsetEnv bool
	// SkipLockFile leaves the lock file unread, for the command that writes it.
	SkipLockFile bool
	// SkipDirs leaves the folders that dir names unlooked for, for the command that writes a file
	// for another place.
	SkipDirs bool
	// Texts are read in place of files of the folder, by their paths in it, with slashes.
	Texts map[string]Secret
	// OnRead is called with each path just before Load reads it or looks for it: folders,
	// configuration files, and the files that they name. It may be nil.
	OnRead func(path string)

	// previous has the texts in use, and hasReplaced is true if Texts are those of files with errors;
	// see [LoadTolerant].
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
	d := newDecoder(path, opts)
	cfg := d.config()
	// Before Finish, since it may add a warning.
	lock, lockReport := readLockFile(d.Reader, cfg, path, opts)
	cfg.Lock = lock
	diags := Diagnostics{d.Finish().Merge(lockReport)}
	if diags.HasErrors() {
		return nil, d, diags // half a configuration could show what a missing hide block was meant to hide
	}
	cfg.TeamFiles, cfg.Hash, cfg.Folder = newTeamFiles(d.Reader), hashTexts(d.Reader), d.Root()
	for _, file := range d.SoundFiles() {
		sum := sha256.Sum256(file.Content)
		cfg.Files = append(cfg.Files, File{d.InFolder(file.Path), hex.EncodeToString(sum[:])})
	}
	return cfg, d, diags
}

// AdminListen reads where the gateway of a configuration has its admin listener. Mistakes do not
// matter: a gateway that runs may have been started before they were made.
func AdminListen(path string, opts Options) string {
	return newDecoder(path, opts).config().Admin.Listen
}

// newDecoder reads the files at path.
func newDecoder(path string, opts Options) *decoder {
	texts := make(map[string]string, len(opts.Texts))
	for name, text := range opts.Texts {
		texts[name] = text.Reveal()
	}
	d := &decoder{previous: opts.previous, hasReplaced: opts.hasReplaced, skipDirs: opts.SkipDirs}
	d.Reader = hclread.New(rootSchema(), hclread.Options{
		Texts:         texts,
		LookupEnv:     opts.LookupEnv,
		AllowUnsetEnv: opts.AllowUnsetEnv,
		OnRead:        opts.OnRead,
	})
	d.ReadPath(path)
	return d
}

// decoder turns the blocks of one configuration into values. Its fields hold what a block must know
// of other blocks.
type decoder struct {
	*hclread.Reader

	teams     teamNames
	names     namespace
	listeners listeners
	allowed   allowed
	overrides overrides
	// assertions is nil until the gateway block is known.
	assertions *assertions
	// cursorKeys holds what these are made of.
	cursorKeys hclread.Uses

	// These are those of [Options].
	previous    *TeamFiles
	hasReplaced bool
	skipDirs    bool
}

// rootSchema describes the top level of a file, and with it the whole language.
func rootSchema() hclread.Schema {
	return hclread.Schema{
		Blocks: []hclread.BlockSchema{
			{Type: "gateway", Schema: gatewaySchema()},
			{Type: "admin", Schema: adminSchema()},
			{Type: "audit", Schema: auditSchema()},
			{Type: "cluster", Schema: clusterSchema()},
			{Type: "auth", Schema: authSchema()},
			{Type: "hide", Labelled: true, Schema: hideSchema()},
			{Type: "allow", Labelled: true, Schema: allowSchema()},
			{Type: "team", Labelled: true, Schema: teamSchema()},
		},
		Foreign: foreignServers(`team "NAME" { upstream "NAME" { … } }`),
	}
}

// config decodes all blocks. Those that others depend on come first.
func (d *decoder) config() *Config {
	d.checkOwnership()
	d.Check() // before the rest: a misspelt attribute must not be reported as missing, too
	d.teams = d.Labels("team")
	if d.hasReplaced { // a team may have gone, or be left out
		d.teams = append(d.teams, anyTeam)
	}
	cfg := d.settings()
	d.names = namespace{separator: cfg.Gateway.Separator, owners: map[string]claim{}, contested: map[string]bool{}}
	// Before teams: no upstream may be where the gateway listens.
	d.listeners = newListeners(d.Reader, cfg)
	d.assertions = newAssertions(d.Reader)
	for _, b := range d.Blocks("hide") {
		cfg.Hides = append(cfg.Hides, decodeHide(b))
	}
	// Grants come before teams, whose expressions are evaluated within them.
	d.allowed = decodeAllowed(d.Reader, d.teams, d.cursorKeys)
	d.checkLabels()
	cfg.Teams = d.allTeams()
	// After teams: only now is it known which files are read as values.
	completeFiles(d.Reader, cfg, d.cursorKeys)
	// A prompt block may name an upstream that is further down, in another file.
	d.names.checkLookalikes(d.Reader)
	d.overrides.check(d.Reader, d.names, d.allowed)
	d.separateSkills(cfg)
	warnFacts(d.Reader, cfg)
	d.warnLeftOut()
	d.reserve()
	return cfg
}

// settings decodes the blocks that may appear once.
func (d *decoder) settings() *Config {
	ids := &identities{hashes: map[[sha256.Size]byte]Place{}}
	cfg := &Config{
		Gateway: only(d.Reader, "gateway", func(b *hclread.Block) Gateway { return decodeGateway(b, ids, &d.cursorKeys) }),
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

// only decodes a block that may appear once; an empty one if it is absent. Further ones were
// reported, and are decoded for the mistakes in them.
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

// optional is [only] for a block without which there is nothing.
func optional[T any](r *hclread.Reader, blockType string, decode func(*hclread.Block) T) *T {
	if len(r.Blocks(blockType)) == 0 {
		return nil
	}
	value := only(r, blockType, decode)
	return &value
}

// checkOwnership reports the blocks beside a team block: those who may change a team's file must
// not be able to change anything else with it, nor to make a mistake of another file by it. Of a
// block of an unknown type, its name is the mistake.
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
	for _, blocks := range misplaced { // one report for a file: it may be one that was legal alone
		var types []string
		for _, b := range blocks {
			if !slices.Contains(types, b.Type()) {
				types = append(types, b.Type())
			}
		}
		place := "to a file of the platform team"
		if slices.Contains(types, "hide") {
			place += ", or a hide for the team's own prompts into the team block"
		}
		for _, b := range blocks[1:] {
			b.Drop()
		}
		blocks[0].Discard("Not in a team's file", "In a folder, a file with a team block may contain nothing else; move %s %s.",
			strings.Join(types, ", "), place)
	}
}

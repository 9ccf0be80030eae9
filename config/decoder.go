package config

import (
	"crypto/sha256"
	"slices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// decoder turns the blocks of one configuration into values. Its fields hold what a block must know of other blocks.
type decoder struct {
	*hclread.Reader

	teams     teamNames
	names     namespace
	listeners listeners
	allowed   allowed
	overrides overrides

	// inUse is nil unless texts may stand in for files of teams; then standIns are the files for which they do.
	inUse    *TeamFiles
	standIns map[string]string

	earlier *evaluated                // nil if everything is evaluated
	reused  map[string]*evaluatedFile // files that are not evaluated again, by path
	fresh   map[string]*evaluatedFile // what became of others
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
		Elsewhere: map[string]string{
			"upstream": "a team block",
			"expose":   "a team block",
			"prompt":   "a team block",
			"limit":    "a gateway, team or expose block",
			"screen":   "a gateway or team block",
			"lock":     "a gateway or team block",
		},
		Foreign: foreignServers(`team "NAME" { upstream "NAME" { … } }`),
	}
}

// config decodes all blocks. Those that others depend on come first.
func (d *decoder) config() *Config {
	d.Check() // first: a misspelt attribute must not be reported as missing, too
	d.checkOwnership()
	d.teams = slices.Concat(d.Labels("team"), d.reusedTeams())
	if d.inUse != nil { // a team that renames or removes itself must not make a mistake of the files that name it
		d.teams = append(d.teams, anyTeam)
	}
	cfg := d.settings()
	d.names = namespace{separator: cfg.Gateway.Separator, owners: map[string]owner{}}
	d.listeners = newListeners(d.Reader, cfg)
	for _, b := range d.Blocks("hide") {
		cfg.Hides = append(cfg.Hides, decodeHide(b))
	}
	// Grants come before teams, whose expressions are evaluated within them.
	d.allowed = decodeAllowed(d.Reader, d.teams)
	cfg.Teams = d.allTeams()
	completeFiles(d.Reader, cfg)
	// A prompt block may name an upstream that is further down, in another file.
	d.names.checkLookalikes(d.Reader)
	d.overrides.check(d.Reader, d.names, d.allowed)
	return cfg
}

// settings decodes the blocks that may appear once.
func (d *decoder) settings() *Config {
	ids := &identities{hashes: map[[sha256.Size]byte]Place{}}
	cfg := &Config{
		Gateway: only(d.Reader, "gateway", func(b *hclread.Block) Gateway { return decodeGateway(b, ids) }),
		Admin:   only(d.Reader, "admin", decodeAdmin),
	}
	if len(d.Blocks("audit")) > 0 {
		audit := only(d.Reader, "audit", decodeAudit)
		cfg.Audit = &audit
	}
	if len(d.Blocks("cluster")) > 0 {
		cluster := only(d.Reader, "cluster", decodeCluster)
		cfg.Cluster = &cluster
	}
	if len(d.Blocks("auth")) > 0 {
		auth := only(d.Reader, "auth", func(b *hclread.Block) Auth { return decodeAuth(b, ids) })
		cfg.Auth = &auth
	}
	cfg.Auth = withCertificates(cfg.Auth, cfg.Gateway.TLS)
	ids.check(d.Reader)
	checkPublicURL(d.Reader, cfg)
	checkAuditHash(d.Reader, cfg)
	checkAuditLimit(d.Reader, cfg)
	checkCluster(d.Reader, cfg)
	return cfg
}

// only decodes a block that may appear once; an empty one if it is absent. Further ones were reported, and are decoded for the
// mistakes in them.
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

// checkOwnership reports the blocks beside a team block: those who may change a team's file must not be able to change
// anything else with it.
func (d *decoder) checkOwnership() {
	if !d.IsFolder() {
		return
	}
	isTeamFile := map[string]bool{}
	for _, b := range d.Blocks("team") {
		isTeamFile[b.Range().Filename] = true
	}
	for _, b := range d.TopBlocks() {
		if b.Type() != "team" && isTeamFile[b.Range().Filename] {
			d.Error(b.Range(), "Not in a team's file",
				"In a folder, a file with a team block contains nothing else; move %s to a file of the platform team.", b.Type())
		}
	}
}

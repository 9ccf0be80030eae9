package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/clientfile"
	"github.com/promptweir/promptweir/upstream/files"
)

// trial is a configuration for try and import, made from folders of prompts and the servers of client files.
type trial struct {
	app *app
	// yes is true to use servers of client files without a question.
	yes bool
	// isFound is true if the user did not name the client files.
	isFound bool
	// gateway contains the blocks gateway and admin, in HCL.
	gateway string
	files   []clientfile.File
	folders []promptFolder
	// servers are the servers in files, by upstream name. texts sets them.
	servers map[string]clientfile.Server
}

// load makes the configuration, without servers that the user does not trust.
func (t *trial) load(ctx context.Context) (*config.Config, error) {
	cfg, err := t.loadOnce()
	if err == nil && t.separate(files.Read(ctx, cfg.Upstreams()), cfg.Upstreams()) {
		cfg, err = t.loadOnce()
	}
	if err != nil {
		return nil, err
	}
	if err := t.leaveOutUntrusted(ctx, cfg); err != nil {
		return nil, err
	}
	if len(cfg.Upstreams()) == 0 {
		return nil, errors.New("there is nothing to serve")
	}
	for i, read := range files.Read(ctx, cfg.Upstreams()) {
		if u := cfg.Upstreams()[i]; u.Files != nil && read.Err == nil && len(read.List.Prompts)+len(read.List.Broken()) == 0 {
			t.app.warn("%s has no prompts: looked for %s and, in a project, for folders of clients. Write a text into a file such as %s",
				u.Place.File, u.Address(), filepath.Join(u.Place.File, "review.md"))
		}
	}
	return cfg, nil
}

// separate replaces a project's upstream by one upstream per client, if the clients have different prompts
// with the same name. It reports whether it did so for any project.
func (t *trial) separate(read []files.Result, upstreams []config.Upstream) (isSeparate bool) {
	var folders []promptFolder
	for _, f := range t.folders {
		i := slices.IndexFunc(upstreams, func(u config.Upstream) bool { return u.Files != nil && u.Name == f.label })
		isDuplicate := func(p files.Problem) bool { return p.Summary == files.DuplicateName && p.Severity == files.Broken }
		if len(f.parts) == 0 || i < 0 || !slices.ContainsFunc(read[i].List.Problems, isDuplicate) {
			folders = append(folders, f)
			continue
		}
		for j, p := range f.parts {
			folders = withPart(folders, promptFolder{named: f.named, path: f.path, label: p.client(), format: f.format}, p, f.patterns[j])
		}
	}
	isSeparate = len(folders) > len(t.folders)
	t.folders = folders
	return isSeparate
}

// loadOnce writes the configuration to temporary files and loads it.
func (t *trial) loadOnce() (*config.Config, error) {
	texts, secrets, err := t.texts()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "promptweir-try-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	// Secrets of client files stay in memory. The temporary files refer to them by names, as to environment
	// variables.
	cfg, diagnostics := config.Load(folder, config.Options{LookupEnv: func(name string) (string, bool) {
		if secret, ok := secrets[name]; ok {
			return secret.Reveal(), true
		}
		return os.LookupEnv(name)
	}})
	if cfg == nil {
		return nil, t.app.report(diagnostics)
	}
	t.place(cfg)
	return cfg, nil
}

// texts returns the contents of the configuration's files by name, and the secrets to which they refer, by
// variable.
func (t *trial) texts() (texts map[string][]byte, secrets map[string]config.Secret, err error) {
	texts = map[string][]byte{"gateway.hcl": []byte(t.gateway)}
	servers := ""
	if len(t.files) > 0 {
		isSet := func(name string) bool { _, ok := os.LookupEnv(name); return ok }
		made, err := clientfile.Team("servers", t.files, &clientfile.Machine{IsSet: isSet, Gateway: t.gateway})
		if err != nil {
			return nil, nil, err
		}
		for _, why := range made.LeftOut {
			t.app.warn("%s", why)
		}
		texts["servers.hcl"], secrets, servers = made.Text, made.Secrets, string(made.Text)
		t.servers = made.Servers
	}
	var prompts strings.Builder
	for i := range t.folders {
		f := &t.folders[i]
		for base, n := f.label, 2; strings.Contains(servers+prompts.String(), fmt.Sprintf("upstream %q {", f.label)); n++ {
			f.label = fmt.Sprintf("%s-%d", base, n)
		}
		patterns := exslices.CastFunc(f.patterns, cty.StringVal)
		format := ""
		if f.format != "" {
			format = fmt.Sprintf("  format = %q\n", f.format)
		}
		fmt.Fprintf(&prompts, "upstream %q {\n  files = %s\n%s}\n", f.label, hclwrite.TokensForValue(cty.ListVal(patterns)).Bytes(), format)
	}
	if len(t.folders) > 0 {
		texts["prompts.hcl"] = []byte("team \"prompts\" {\n" + prompts.String() + "}\n")
	}
	return texts, secrets, nil
}

// place replaces the paths of temporary files in the configuration by the paths that the user knows.
func (t *trial) place(cfg *config.Config) {
	names := exslices.CastFunc(t.files, func(f clientfile.File) string { return f.Name })
	for i := range cfg.Teams {
		for j := range cfg.Teams[i].Upstreams {
			u := &cfg.Teams[i].Upstreams[j]
			u.Place = config.Place{File: strings.Join(names, ", ")}
			for _, f := range t.folders {
				if u.Files != nil && u.Name == f.label {
					u.Place.File, u.Files.Folder, u.Files.Root = f.named, f.path, f.path
				}
			}
		}
	}
}

// leaveOutUntrusted asks about servers of client files that would be started or get environment
// variables, and about all servers of files that the caller did not name. Without consent it leaves
// them out: the author of such a file, for example in a repository, may not be its user.
func (t *trial) leaveOutUntrusted(ctx context.Context, cfg *config.Config) error {
	isUntrusted := func(u config.Upstream) bool {
		return u.Files == nil && (t.isFound || len(u.Command) > 0 || t.servers[u.Name].GetsVariables)
	}
	untrusted := slices.DeleteFunc(cfg.Upstreams(), func(u config.Upstream) bool { return !isUntrusted(u) })
	if len(untrusted) == 0 || t.yes {
		return nil
	}
	prompter := terminal.NewPrompter(t.app.raw.in)
	if prompter == nil {
		t.app.warn("%s left out: without a terminal, they need --yes",
			terminal.Count(len(untrusted), "server"))
	} else {
		for _, u := range untrusted {
			if err := prompter.Tell(t.servers[u.Name].Text); err != nil {
				return err
			}
		}
		question := "Use " + terminal.Count(len(untrusted), "server") + " of " + untrusted[0].Place.File + "?"
		if yes, err := prompter.Confirm(ctx, question); err != nil || yes {
			return err
		}
	}
	for i := range cfg.Teams {
		cfg.Teams[i].Upstreams = slices.DeleteFunc(cfg.Teams[i].Upstreams, isUntrusted)
	}
	return nil
}

package config

import (
	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Options say where values come from. The zero value is what serve needs.
type Options struct {
	// LookupEnv finds environment variables; nil means [os.LookupEnv].
	LookupEnv func(string) (string, bool)
	// AllowUnsetEnv makes an unset variable without a default a warning, for the commands that start nothing. What an
	// expression computes from it is left empty and unchecked.
	AllowUnsetEnv bool
	// SkipLockFile leaves the lock file unread, for the command that writes it.
	SkipLockFile bool
	// Texts are read in place of files of the folder, by their paths in it, with slashes.
	Texts map[string]Secret
	// Before is what an earlier Load of the same path returned. Files of teams that did not change since are not evaluated again
	// where that makes no difference. It may be nil.
	Before *Config
	// OnRead is called with each path just before Load reads it or looks for it: folders, configuration files, and the files
	// that they name. It may be nil.
	OnRead func(path string)

	// inUse are the files of teams that are in use, where texts may stand in for some; see [LoadLastGood].
	inUse *TeamFiles
}

// Load reads the file or the folder at path. The Config is nil exactly when the Diagnostics have errors.
func Load(path string, opts Options) (*Config, Diagnostics) {
	cfg, diags, ok := loadReusing(path, opts)
	if !ok {
		opts.Before = nil
		cfg, diags, _ = loadReusing(path, opts)
	}
	return cfg, diags
}

// loadReusing is Load. It is not ok if the outcome could be another one without [Options.Before].
func loadReusing(path string, opts Options) (cfg *Config, diags Diagnostics, ok bool) {
	d := newDecoder(path, opts)
	cfg = d.config()
	lock, lockReport := readLockFile(d.Reader, cfg, path, opts)
	cfg.Lock = lock
	diags = Diagnostics{d.Finish().Merge(lockReport)}
	if !d.mayReuse(diags) {
		return nil, Diagnostics{}, false
	}
	if diags.HasErrors() {
		return nil, diags, true // half a configuration could show what a missing hide block was meant to hide
	}
	cfg.TeamFiles, cfg.Hash = newTeamFiles(d.Reader, diags), hashTexts(d.Reader, diags)
	cfg.evaluated = d.evaluated(diags)
	return cfg, diags, true
}

// AdminListen reads where the gateway of a configuration has its admin listener. Mistakes do not matter: a gateway that runs
// may have been started before they were made.
func AdminListen(path string, opts Options) string {
	return newDecoder(path, opts).config().Admin.Listen
}

// newDecoder reads the files at path.
func newDecoder(path string, opts Options) *decoder {
	texts := make(map[string]string, len(opts.Texts))
	for name, text := range opts.Texts {
		texts[name] = text.Reveal()
	}
	d := &decoder{inUse: opts.inUse, standIns: texts, reused: map[string]*evaluatedFile{}, fresh: map[string]*evaluatedFile{}}
	if opts.Before != nil {
		d.earlier = opts.Before.evaluated
	}
	d.Reader = hclread.New(rootSchema(), hclread.Options{
		Texts:         texts,
		LookupEnv:     opts.LookupEnv,
		AllowUnsetEnv: opts.AllowUnsetEnv,
		OnRead:        opts.OnRead,
		Skip:          d.reuse,
	})
	d.ReadPath(path)
	return d
}

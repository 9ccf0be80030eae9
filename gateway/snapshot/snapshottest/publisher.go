package snapshottest

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Upstreams are servers by the labels of their upstream blocks. One that is missing is never
// reached.
type Upstreams map[string]*Upstream

// Publisher has the snapshots of a gateway in memory. Nothing runs until [Publisher.Start].
type Publisher struct {
	*publish.Publisher

	tb    testing.TB
	start sync.Once
	// path is the file from which Reload loads, because a rule in another file is another rule.
	path string
}

// New returns the publisher of a configuration in HCL, whose first snapshot has the lists of all
// upstreams. In the text, %KEY% stands for a cursor key.
func New(tb testing.TB, text string, upstreams Upstreams) *Publisher {
	tb.Helper()
	return NewConfig(tb, Load(tb, text), publish.Options{}, upstreams)
}

// NewConfig is [New] for a configuration that was loaded, and with options.
func NewConfig(tb testing.TB, cfg *config.Config, opts publish.Options, upstreams Upstreams) *Publisher {
	tb.Helper()
	opts.NewConnector = func(u config.Upstream, changed func()) publish.Connector {
		server := upstreams[u.Name]
		if server == nil {
			server = &Upstream{Starting: true}
		}
		return server.connector(u, changed)
	}
	p, err := publish.New(cfg, opts)
	if err != nil {
		tb.Fatal(err)
	}
	return &Publisher{Publisher: p, tb: tb, path: filepath.Join(tb.TempDir(), "gateway.hcl")}
}

// Load reads a configuration as [New] does.
func Load(tb testing.TB, text string) *config.Config {
	tb.Helper()
	return upstreamtest.Load(tb, filepath.Join(tb.TempDir(), "gateway.hcl"), text)
}

// Start runs the publisher until the test ends.
func (p *Publisher) Start() {
	p.start.Do(func() {
		ended := make(chan error, 1)
		go func() { ended <- p.Run(p.tb.Context()) }()
		p.tb.Cleanup(func() {
			if err := <-ended; err != nil {
				p.tb.Error(err)
			}
		})
	})
}

// Reload starts the publisher, and puts another configuration into use. All reloads are from the same
// file.
func (p *Publisher) Reload(text string) {
	p.tb.Helper()
	p.Start()
	next, err := p.NewGeneration(upstreamtest.Load(p.tb, p.path, text))
	if err == nil {
		_, err = p.Replace(p.tb.Context(), next)
	}
	if err != nil {
		p.tb.Fatal(err)
	}
}

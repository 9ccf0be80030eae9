package snapshot

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// A new configuration of 1 000 upstreams of 100 prompts each takes the place of the one before, with nothing changed but a
// setting that no definition depends on, or a rule, by which every entry's visibility is decided again.
func BenchmarkReload(b *testing.B) {
	const upstreams, prompts = 1_000, 100
	configuration := func(pageSize int, rule string) *config.Config {
		cfg := &config.Config{Gateway: config.Gateway{PageSize: pageSize, Separator: "."}}
		pattern, err := config.ParsePattern(rule)
		if err != nil {
			b.Fatal(err)
		}
		for i := range upstreams {
			u := upstreamtest.HTTP(fmt.Sprintf("u%d", i), fmt.Sprintf("http://127.0.0.1:1/%d", i))
			u.Team, u.Prefix = fmt.Sprintf("t%d", i%100), fmt.Sprintf("u%d", i)
			if i < 100 {
				cfg.Teams = append(cfg.Teams, config.Team{Name: u.Team, Exposes: []config.Rule{{
					Prompts: []config.Pattern{pattern}, To: []config.Selector{{Kind: config.Anybody, Name: "*"}},
				}}})
			}
			team := &cfg.Teams[i%100]
			team.Upstreams = append(team.Upstreams, u)
		}
		return cfg
	}
	dir, err := openStateDir(b.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	first := configuration(100, "*")
	for _, u := range first.Upstreams() {
		list := make([]jsontext.Value, prompts)
		for i := range list {
			list[i] = fmt.Appendf(nil, `{"name":"p%d","description":%q,"arguments":[{"name":"code","required":true}]}`,
				i, strings.Repeat("Reviews a change and says what is wrong. ", 4))
		}
		if err := dir.save(u, list); err != nil {
			b.Fatal(err)
		}
	}
	for name, change := range map[string]func(turn int) *config.Config{
		"page_size": func(turn int) *config.Config { return configuration(100+turn%2, "*") },
		"rule":      func(turn int) *config.Config { return configuration(100, []string{"*", "u*"}[turn%2]) },
	} {
		b.Run(name, func(b *testing.B) {
			p, err := NewPublisher(first, Options{
				StateDir: dir.path,
				NewConnector: func(u config.Upstream, changed func()) *upstream.Connector {
					return upstream.New(u, upstream.Options{}, changed)
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			isRunning := func(u published) bool { return u.running != nil }
			for p.builder.publish(b.Context(), p.Current().Generation); slices.ContainsFunc(p.builder.published, isRunning); {
				<-p.changed.wake // what took longer than the start waits for
				p.builder.publish(b.Context(), p.Current().Generation)
			}
			turn := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				turn++
				cfg := change(turn)
				b.StartTimer()
				next, err := p.NewGeneration(cfg)
				if err != nil {
					b.Fatal(err)
				}
				p.builder.replace(b.Context(), p.prepare(b.Context(), next))
			}
			if n := len(p.Current().Catalog.Entries()); n != upstreams*prompts {
				b.Fatalf("%d entries, want %d", n, upstreams*prompts)
			}
		})
	}
}

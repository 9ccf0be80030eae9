package publish_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// memory is a publisher whose servers are in memory.
type memory struct {
	*snapshottest.Publisher

	t   testing.TB
	log *gatewaytest.Log
}

// newMemory returns a publisher that does not run yet, with lists in a folder that may be empty.
func newMemory(t testing.TB, cfg *config.Config, stateDir string, servers snapshottest.Upstreams) *memory {
	t.Helper()
	log := new(gatewaytest.Log)
	opts := publish.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), StateDir: stateDir}
	return &memory{snapshottest.NewConfig(t, cfg, opts, servers), t, log}
}

// run returns a publisher that runs.
func run(t testing.TB, text string, servers snapshottest.Upstreams) *memory {
	t.Helper()
	m := newMemory(t, snapshottest.Load(t, text), "", servers)
	m.Start()
	return m
}

// settle waits, in a bubble, until all changes are published and announced.
func settle() {
	time.Sleep(time.Second) // or the publisher could still rest
	synctest.Wait()
}

// server returns a server with prompts, each as a name or a definition.
func server(prompts ...string) *snapshottest.Upstream {
	return &snapshottest.Upstream{Definitions: gatewaytest.Definitions(prompts...)}
}

// team returns a team block with upstreams, which nothing contacts.
func team(name, members, more string, labels ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "team %q {\n  members = [%s]\n", name, members)
	for _, label := range labels {
		fmt.Fprintf(&b, "  upstream %q { url = \"http://127.0.0.1:1/%s\" }\n", label, label)
	}
	return b.String() + more + "\n}\n"
}

func anyone() policy.Principal {
	return policy.Principal{Subject: policy.AnonymousSubject, Anonymous: true, EveryTeam: true}
}

// list returns the names that a principal sees.
func (m *memory) list(principal policy.Principal) (names []string) {
	s := m.Current()
	for _, entry := range s.View(s.Policy.Audience(principal)).Entries() {
		names = append(names, entry.Name)
	}
	return names
}

func (m *memory) wantList(names ...string) {
	m.t.Helper()
	upstreamtest.Equal(m.t, names, m.list(anyone()), "the list")
}

func (m *memory) awaitList(names ...string) {
	m.t.Helper()
	upstreamtest.Eventually(m.t, fmt.Sprint("the list is ", names), func() bool { return slices.Equal(m.list(anyone()), names) })
}

package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// teamOf returns the upstreams of a team with n blocks over one folder.
func teamOf(t *testing.T, n int) (dir string, upstreams []config.Upstream) {
	t.Helper()
	dir = t.TempDir()
	var text strings.Builder
	text.WriteString("team \"docs\" {\n")
	for i := range n {
		fmt.Fprintf(&text, "  upstream \"u%d\" { files = [\"p/*.md\"] }\n", i)
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "docs.hcl"), []byte(text.String()+"}\n"), 0o600), os.Mkdir(filepath.Join(dir, "p"), 0o700),
		os.WriteFile(filepath.Join(dir, "p", "a.md"), []byte("A"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(dir, config.Options{})
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	return dir, cfg.Upstreams()
}

func newTestFolder(u config.Upstream, publish func(*State)) *folder {
	f := newFolder(u, slog.New(slog.DiscardHandler), nil)
	f.onChange = func() { publish(f.state.Load()) }
	return f
}

func TestFolders_OnePassServesAllUpstreamsOfATeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		dir, upstreams := teamOf(t, n)
		folders := NewFolders()
		var states atomic.Int32
		first, leave := context.WithCancel(t.Context())
		for i := range n {
			ctx := t.Context()
			if i == 0 {
				ctx = first
			}
			go folders.run(ctx, newTestFolder(upstreams[i], func(s *State) { states.Add(int32(len(s.Definitions))) }))
			synctest.Wait()
		}
		expect := func(want int32) {
			t.Helper()
			time.Sleep(pollInterval * 3 / 2)
			synctest.Wait()
			upstreamtest.Equal(t, want, states.Swap(0), "lists")
		}
		expect(n)
		expect(0)
		write := func(text string) {
			if err := os.WriteFile(filepath.Join(dir, "p", "a.md"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("---\ndescription: changed\n---\nA")
		expect(n)
		leave() // the member that came first
		synctest.Wait()
		write("---\ndescription: changed again\n---\nA")
		expect(n - 1)
	})
}

func TestFolders_RestTenTimesAsLongAsAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = time.Minute
		dir, upstreams := teamOf(t, 1)
		folders := NewFolders()
		var states atomic.Int32
		go folders.run(t.Context(), newTestFolder(upstreams[0], func(*State) {
			states.Add(1)
			time.Sleep(took)
		}))
		synctest.Wait()
		if err := os.WriteFile(filepath.Join(dir, "p", "a.md"), []byte("---\ndescription: changed\n---\nA"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int32{1, 2} {
			time.Sleep(took + restFactor*took/2)
			synctest.Wait()
			upstreamtest.Equal(t, want, states.Load(), "passes")
		}
	})
}

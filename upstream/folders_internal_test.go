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
	"github.com/promptweir/promptweir/upstream/files"
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
	f := newFolder(u, slog.New(slog.DiscardHandler), publish)
	f.starting()
	return f
}

// costOf returns what a team's passes have cost. The leader holds the lock before each pass, so
// that it begins none meanwhile.
func costOf(fs *Folders, t *teamFolder) files.Cost {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return t.files.Cost()
}

func TestFolders_OnePassServesAllUpstreamsOfATeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10
		_, upstreams := teamOf(t, n)
		folders := NewFolders()
		var listed atomic.Int32
		first, second := context.WithCancel(t.Context())
		for i := range n {
			ctx := t.Context()
			if i == 0 {
				ctx = first
			}
			f := newTestFolder(upstreams[i], func(s *State) { listed.Add(int32(len(s.Definitions))) })
			go folders.run(ctx, f)
			synctest.Wait()
		}
		if listed.Load() != n {
			t.Fatalf("%d lists, want one for each of %d upstreams", listed.Load(), n)
		}
		team := folders.teams["docs"]
		before := costOf(folders, team)
		time.Sleep(10*pollInterval + pollInterval/2)
		synctest.Wait()
		if passes := costOf(folders, team).Passes - before.Passes; passes != 10 {
			t.Errorf("%d passes in ten intervals, want ten for all upstreams", passes)
		}
		second() // the leader ends, and another one leads
		synctest.Wait()
		before = costOf(folders, team)
		time.Sleep(10*pollInterval + pollInterval/2)
		synctest.Wait()
		if passes := costOf(folders, team).Passes - before.Passes; passes < 10 || passes > 11 {
			t.Errorf("%d passes in ten intervals after the leader has ended, want ten", passes)
		}
	})
}

func TestFolders_AreForgottenWithTheirTeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, upstreams := teamOf(t, 2)
		folders := NewFolders()
		ctx, end := context.WithCancel(t.Context())
		for i := range upstreams {
			go folders.run(ctx, newTestFolder(upstreams[i], func(*State) {}))
		}
		synctest.Wait()
		team := folders.teams["docs"]
		end()
		synctest.Wait()
		before := costOf(folders, team)
		time.Sleep(time.Minute)
		if len(folders.teams) != 0 || costOf(folders, team) != before {
			t.Errorf("%d teams, and work went on: %+v after %+v", len(folders.teams), costOf(folders, team), before)
		}
	})
}

func TestFolders_PassesThatFailComeLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, upstreams := teamOf(t, 1)
		if err := os.RemoveAll(filepath.Join(dir, "p")); err != nil {
			t.Fatal(err)
		}
		folders := NewFolders()
		var states atomic.Int32
		go folders.run(t.Context(), newTestFolder(upstreams[0], func(*State) { states.Add(1) }))
		synctest.Wait()
		team := folders.teams["docs"]
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		// 0.8 s, 1.6 s and so on to 25.6 s, then 30 s.
		if passes := costOf(folders, team).Passes; passes < 20 || passes > 27 {
			t.Errorf("%d passes in ten minutes, want one in 30 s", passes)
		}
		if states.Load() != 1 {
			t.Errorf("%d states, want one", states.Load())
		}
	})
}

// A team may take its upstreams out of its file and put them back, over and over.
func TestFolders_ATeamThatComesBackHasNoNewCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, upstreams := teamOf(t, 1)
		folders := NewFolders()
		stay := func(work time.Duration) *pace {
			f := newTestFolder(upstreams[0], func(*State) {})
			team := folders.join(f)
			defer folders.leave(f, team)
			team.pace.rested(time.Now())
			time.Sleep(work)
			if err := team.pace.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			return team.pace
		}
		first := stay(savedWork)
		if again := stay(0); again != first || again.credit > savedWork/2 {
			t.Errorf("the team has credit for %s of work", again.credit)
		}
		time.Sleep(2 * savedWork * workShare)
		if later := stay(0); later == first {
			t.Error("a pace is kept longer than its credit needs to be whole again")
		}
	})
}

// A team may have so many upstreams over one folder that their lists are most of the work.
func TestFolders_CountTheWorkAfterTheLastStepOfAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work, debt = 2 * savedWork, savedWork * workShare
		_, upstreams := teamOf(t, 1)
		folders := NewFolders()
		go folders.run(t.Context(), newTestFolder(upstreams[0], func(*State) { time.Sleep(work) }))
		synctest.Wait()
		team := folders.teams["docs"]
		time.Sleep(work + debt - time.Second)
		synctest.Wait()
		if passes := costOf(folders, team).Passes; passes != 1 {
			t.Errorf("%d passes before the work of the first is paid for", passes)
		}
		time.Sleep(2 * work)
		synctest.Wait()
		if passes := costOf(folders, team).Passes; passes < 2 {
			t.Error("no pass follows")
		}
	})
}

func TestPace_TakesATwentiethOfAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pace{credit: savedWork}
		begun, worked := time.Now(), time.Duration(0)
		p.rested(begun)
		for time.Since(begun) < 10*time.Minute {
			time.Sleep(time.Millisecond) // the work
			worked += time.Millisecond
			if err := p.step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if most := savedWork + 10*time.Minute/20; worked > most || worked < most*9/10 {
			t.Errorf("%s of work in ten minutes, want at most %s", worked, most)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.step(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a step after the end: %v", err)
		}
	})
}

package watch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bound is the longest wait for an event that must come.
const bound = time.Minute

// folder is a folder in which a test changes files.
type folder struct {
	t    *testing.T
	path string
}

// newFolder makes the test parallel: most tests wait for the watcher's interval.
func newFolder(t *testing.T) folder {
	t.Parallel()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return folder{t, path}
}

func (f folder) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) at(name string) string { return filepath.Join(f.path, name) }

func (f folder) write(name, content string) {
	f.t.Helper()
	f.must(os.MkdirAll(filepath.Dir(f.at(name)), 0o700))
	f.must(os.WriteFile(f.at(name), []byte(content), 0o600))
}

func (f folder) link(target, name string) { f.t.Helper(); f.must(os.Symlink(target, f.at(name))) }

func (f folder) rename(from, to string) { f.t.Helper(); f.must(os.Rename(f.at(from), f.at(to))) }

// watched records paths, again after each change, and sends each change on the channel.
func watched(t *testing.T, paths ...string) <-chan struct{} {
	w, changes := new(Watcher), make(chan struct{}, 100)
	read := func() {
		w.Record(func(visit func(string)) {
			for _, path := range paths {
				visit(path)
			}
		})
	}
	read()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- w.Run(ctx, func() {
			read()
			changes <- struct{}{}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return changes
}

func wait(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(bound):
		t.Fatalf("no report of %s", what)
	}
}

func TestRun_ReportsAFileHoweverItIsReplaced(t *testing.T) {
	f := newFolder(t)
	f.write("gateway.hcl", "1")
	changes := watched(t, f.at("gateway.hcl"))

	f.write("gateway.hcl", "22")
	wait(t, changes, "an overwritten file")

	f.write("gateway.hcl~", "333")
	f.rename("gateway.hcl~", "gateway.hcl")
	wait(t, changes, "a file renamed over it")

	f.must(os.Remove(f.at("gateway.hcl")))
	wait(t, changes, "a removed file")
	f.write("gateway.hcl", "4444")
	wait(t, changes, "a file created again")
}

// In a ConfigMap's folder, each file is a link through ..data, which Kubernetes replaces.
func TestRun_ReportsASwappedConfigMap(t *testing.T) {
	f := newFolder(t)
	f.write("..1/gateway.hcl", "same")
	f.link("..1", "..data")
	f.link(filepath.Join("..data", "gateway.hcl"), "gateway.hcl")
	changes := watched(t, f.path, f.at("gateway.hcl"))
	for _, next := range []string{"..2", "..3"} {
		f.write(next+"/gateway.hcl", "same")
		f.link(next, "..data_tmp")
		f.rename("..data_tmp", "..data")
		wait(t, changes, "the link swapped to "+next)
	}
}

func TestRun_ReportsOnlyEntriesThatHoldConfiguration(t *testing.T) {
	f := newFolder(t)
	f.write("gateway.hcl", "1")
	changes := watched(t, f.path, f.at("gateway.hcl"))
	for _, other := range []string{".gateway.hcl.swp", "4913", "gateway.hcl~", "_draft.hcl", "README.md"} {
		f.write(other, "x")
	}
	f.write("team.hcl", "2")
	wait(t, changes, "a new file")
	f.must(os.Mkdir(f.at("teams"), 0o700))
	wait(t, changes, "a new folder")
	f.must(os.Remove(f.at("team.hcl")))
	wait(t, changes, "a removed file")
	select {
	case <-changes:
		t.Error("a file that nobody reads was reported")
	default:
	}
}

func TestRun_ReportsAFolderThatIsCreatedLater(t *testing.T) {
	f := newFolder(t)
	changes := watched(t, f.at("a/b/c.pem"))
	f.write("a/b/c.pem", "1")
	wait(t, changes, "a file created with its folders")
}

func TestRun_ReportsAChangeBetweenReadingAndWatching(t *testing.T) {
	f := newFolder(t)
	f.write("gateway.hcl", "1")
	w := new(Watcher)
	w.Record(func(visit func(string)) {
		visit(f.at("gateway.hcl"))
		f.write("gateway.hcl", "22")
	})
	ctx, cancel := context.WithCancel(t.Context())
	reported := false
	if err := w.Run(ctx, func() {
		reported = true
		cancel()
	}); err != nil || !reported {
		t.Errorf("Run: %v, reported %v", err, reported)
	}
}

// Someone who changes several files has time to finish.
func TestRun_ReportsSeveralChangesOnceWithinSeconds(t *testing.T) {
	f := newFolder(t)
	f.write("a.hcl", "a")
	synctest.Test(t, func(t *testing.T) {
		w := new(Watcher)
		w.Record(func(visit func(string)) { visit(f.at("a.hcl")) })
		ctx, cancel := context.WithCancel(t.Context())
		var changes atomic.Int64
		ended := make(chan error)
		go func() { ended <- w.Run(ctx, func() { changes.Add(1) }) }()
		synctest.Wait()
		for i := range 5 {
			f.write("a.hcl", strings.Repeat("a", i+2))
			time.Sleep(interval)
			if i < 3 && changes.Load() > 2 {
				t.Errorf("%d changes are reported", changes.Load())
			}
		}
		time.Sleep(interval + maxSettle)
		synctest.Wait()
		before := changes.Load()
		time.Sleep(10 * interval)
		if got := changes.Load(); got != before || got == 0 {
			t.Errorf("%d reports, and %d while nothing changed", before, got-before)
		}
		cancel()
		f.must(<-ended)
	})
}

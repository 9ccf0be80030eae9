package watch

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// interval is the time between comparisons. Comparing, unlike file system events, also works
	// through links, on network file systems and in mounted ConfigMaps.
	interval = time.Second
	// Before a change is reported, quiet must pass without changes, so that people can finish changing
	// several files. After maxSettle it is reported anyway.
	quiet     = 200 * time.Millisecond
	maxSettle = 2 * time.Second
)

// Watcher watches the files that [Watcher.Record] recorded. The zero value watches nothing.
type Watcher struct {
	mu   sync.Mutex // guards seen
	seen map[string]stamp
}

// Record calls read, which must call visit with the path of each file and folder just before reading it. These
// paths replace the paths of an earlier call.
func (w *Watcher) Record(read func(visit func(path string))) {
	seen := map[string]stamp{}
	read(func(path string) {
		if _, ok := seen[path]; !ok {
			seen[path] = newStamp(path)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = seen
}

// Run calls changed after changes of the recorded files until ctx ends. Each change is reported
// once, even if changed does not record the files again.
func (w *Watcher) Run(ctx context.Context, changed func()) error {
	for {
		if w.differs() {
			for end := time.Now().Add(maxSettle); sleep(ctx, quiet) && w.differs() && time.Now().Before(end); {
			}
			if ctx.Err() == nil {
				changed()
			}
		}
		if !sleep(ctx, interval) {
			return nil
		}
	}
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// differs reports whether anything has changed since the last comparison.
func (w *Watcher) differs() (differs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, before := range w.seen {
		now := newStamp(path)
		differs = differs || !now.same(before)
		w.seen[path] = now
	}
	return differs
}

// stamp identifies a state of a file or folder.
type stamp struct {
	// info describes the target of the path. It is nil if there is no target.
	info fs.FileInfo
	// names contains the folders, the links and the .hcl files in a folder, except hidden ones.
	names []string
}

func newStamp(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	s := stamp{info: info}
	if !info.IsDir() {
		return s
	}
	entries, _ := os.ReadDir(path) // an unreadable folder counts as empty
	for _, entry := range entries {
		// Skip the backup and swap files of editors.
		name := entry.Name()
		isHidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
		if !isHidden && (entry.Type() != 0 || strings.HasSuffix(name, ".hcl")) {
			s.names = append(s.names, name)
		}
	}
	return s
}

func (s stamp) same(other stamp) bool {
	if s.info == nil || other.info == nil {
		return s.info == nil && other.info == nil
	}
	if s.info.IsDir() && other.info.IsDir() {
		return slices.Equal(s.names, other.names)
	}
	return os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() && s.info.ModTime().Equal(other.info.ModTime())
}

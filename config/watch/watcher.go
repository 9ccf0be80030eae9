package watch

import (
	"context"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// interval is how often the files are compared. Comparing, unlike events of the file system, sees
	// changes behind links, on network file systems and in mounted ConfigMaps alike.
	interval = time.Second
	// quiet is how long nothing may change before a change is reported, so that someone who changes
	// several files has time to finish; at most maxSettle.
	quiet     = 200 * time.Millisecond
	maxSettle = 2 * time.Second
)

// Watcher knows which files were read. The zero value knows none.
type Watcher struct {
	mu   sync.Mutex // guards seen
	seen map[string]stamp
}

// Record calls read, which must call visit with the path of each file and folder just before it
// reads it. From then on these are watched, and none that an earlier call recorded.
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

// Run calls changed when something that was recorded last has changed, until ctx ends. It calls it
// again for the next change, whether or not changed records again.
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

// sleep reports whether a time has passed before ctx ends.
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

// stamp tells one state of a file or folder from another.
type stamp struct {
	// info describes what the path leads to; nil if that does not exist.
	info fs.FileInfo
	// names are the entries of a folder that can hold configuration.
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
		// An editor's backup or swap file must not count as a change.
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
	return os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() &&
		s.info.ModTime().Equal(other.info.ModTime()) && changeTime(s.info) == changeTime(other.info)
}

// changeTime returns when the system last changed anything about a file, where it says so: tools
// such as rsync set the time of modification, and a token of the same length may be written over
// another.
func changeTime(info fs.FileInfo) (at [2]int64) {
	system := reflect.Indirect(reflect.ValueOf(info.Sys()))
	if system.Kind() != reflect.Struct {
		return at
	}
	for _, name := range []string{"Ctim", "Ctimespec"} { // of Linux, and of macOS
		if field := system.FieldByName(name); field.IsValid() {
			at = [2]int64{field.FieldByName("Sec").Int(), field.FieldByName("Nsec").Int()}
		}
	}
	return at
}

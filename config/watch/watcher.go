package watch

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/promptweir/promptweir/config/regular"
)

const (
	// quiet is how long no event may come before the files are compared, so that someone who
	// changes several files has time to finish.
	quiet = 200 * time.Millisecond
	// maxSettle bounds that wait when events keep coming.
	maxSettle = 2 * time.Second
	// round is how often the files are compared without an event: some file systems send none.
	// Where the system cannot watch all folders, it is blindRound.
	round      = time.Minute
	blindRound = 2 * time.Second
	// maxFollow bounds how often the watched folders are worked out again.
	maxFollow = 10
)

// Watcher knows which files were read. [New] makes one; the zero value is not usable.
type Watcher struct {
	logger *slog.Logger
	events *fsnotify.Watcher // nil if the system has none left

	mu      sync.Mutex // guards what follows
	blind   error      // why no events may come; nil if they do
	seen    map[string]stamp
	folders map[string]bool // the watched folders
}

// New returns a Watcher. Its resources are released when [Watcher.Run] returns.
func New(logger *slog.Logger) *Watcher { return newWatcher(logger, fsnotify.NewWatcher) }

func newWatcher(logger *slog.Logger, open func() (*fsnotify.Watcher, error)) *Watcher {
	w := &Watcher{logger: logger, seen: map[string]stamp{}, folders: map[string]bool{}}
	events, err := open()
	if err != nil { // out of inotify instances, for example: comparing the files remains
		w.setBlind(err)
		return w
	}
	w.events = events
	return w
}

// setBlind warns, the first time, that changes are found by looking.
func (w *Watcher) setBlind(why error) {
	if w.blind == nil {
		w.logger.Warn("the system cannot watch the configuration: it is checked for changes every two seconds",
			slog.Any("error", why), slog.String("remedy", "raise fs.inotify.max_user_instances "+
				"and fs.inotify.max_user_watches"))
	}
	w.blind = why
}

// interval is how long after a comparison the next one comes without an event.
func (w *Watcher) interval() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blind != nil {
		return blindRound
	}
	return round
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
	w.followLocked()
}

// Run calls changed when something that was recorded last has changed, until ctx ends. It calls it
// again for the next change, whether or not changed records again.
func (w *Watcher) Run(ctx context.Context, changed func()) error {
	var events <-chan fsnotify.Event
	var lost <-chan error
	if w.events != nil {
		defer w.events.Close()
		events, lost = w.events.Events, w.events.Errors
	}
	for {
		if w.differs() {
			changed()
		}
		select {
		case <-events:
			if !settle(ctx, events) {
				return nil
			}
		case <-lost: //nolint:errcheck // whatever was lost, it is time to compare
		case <-time.After(w.interval()):
		case <-ctx.Done():
			return nil
		}
	}
}

// settle waits until events stop coming, at most maxSettle. It reports false if ctx ends first.
func settle(ctx context.Context, events <-chan fsnotify.Event) bool {
	end := time.After(maxSettle)
	for {
		select {
		case <-events: // after which the pause begins again
		case <-time.After(quiet):
			return true
		case <-end:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// differs reports whether anything has changed since the last comparison.
func (w *Watcher) differs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.followLocked() // before comparing: an event reports whatever changes afterwards
	differs := false
	for path, before := range w.seen {
		now := newStamp(path)
		differs = differs || !now.same(before)
		w.seen[path] = now
	}
	return differs
}

// followLocked watches the folders whose entries decide where the paths lead, and no others. If
// these have changed by then, it begins again: a folder may have been created before its parent was
// watched.
func (w *Watcher) followLocked() {
	if w.events == nil {
		return
	}
	wanted := w.wantedLocked()
	for range maxFollow {
		w.watchLocked(wanted)
		before := wanted
		if wanted = w.wantedLocked(); maps.Equal(wanted, before) {
			return
		}
	}
}

// wantedLocked returns the folders whose entries decide where the paths lead now.
func (w *Watcher) wantedLocked() map[string]bool {
	wanted := map[string]bool{}
	for path := range w.seen {
		for _, folder := range foldersOf(path) {
			wanted[folder] = true
		}
	}
	return wanted
}

// watchLocked watches these folders and no others.
func (w *Watcher) watchLocked(wanted map[string]bool) {
	for folder := range w.folders {
		if !wanted[folder] {
			_ = w.events.Remove(folder) // it may be gone
		}
	}
	w.folders = map[string]bool{}
	for folder := range wanted {
		// Add does nothing for a watched folder, unless the name now stands for another one.
		switch err := w.events.Add(folder); {
		case err == nil:
			w.folders[folder] = true
		case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE): // no watch is left
			w.setBlind(err)
		}
	}
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

// foldersOf returns the folders whose entries decide where a path leads: the folder of each link on
// the way, that of the file, and the file itself if it is a folder. If the path ends early, the
// last one is where it would continue.
func foldersOf(path string) (folders []string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	way, err := regular.Follow(path)
	for _, link := range way.Links {
		folders = append(folders, filepath.Dir(link))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return append(folders, way.Actual)
	}
	if err != nil {
		return folders
	}
	if info, err := os.Lstat(way.Actual); err == nil && info.IsDir() {
		folders = append(folders, way.Actual)
	}
	return append(folders, filepath.Dir(way.Actual))
}

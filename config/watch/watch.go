// Package watch answers: did a file that was read change?
//
// The folders in which files stand are watched, not the files: editors rename a new file over the old one, and Kubernetes
// swaps a link on the way to a ConfigMap's. An event says only that it is time to look. What counts is whether a path leads
// to another file, or one of another time or size, than when it was read, so nothing that changes between the reading and
// the watching is missed, and nothing is said of files that nobody read.
package watch

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long no event must have come before the files are looked at, and patience how long one that is followed
	// by others may wait: who changes several files is given the time.
	quiet    = 200 * time.Millisecond
	patience = 2 * time.Second
	// round is how often the files are looked at without an event: some file systems have none.
	round = time.Minute
	// maxLinks bounds the links on the way to one file.
	maxLinks = 40
)

// Watcher knows which files were read. The zero value is not usable, [New] makes one.
type Watcher struct {
	events *fsnotify.Watcher // nil where the system has none to give

	mu      sync.Mutex // guards what follows
	seen    map[string]stamp
	folders map[string]bool // the folders that are watched
}

// New returns a watcher, which is closed by the end of its [Watcher.Run].
func New() *Watcher {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		events = nil // out of inotify instances, for example: the rounds remain
	}
	return &Watcher{events: events, seen: map[string]stamp{}, folders: map[string]bool{}}
}

// Record lets read read files and folders, and tell of each just before. These, and none that were told of earlier, are
// watched from then on.
func (w *Watcher) Record(read func(visit func(path string))) {
	seen := map[string]stamp{}
	read(func(path string) {
		if _, ok := seen[path]; !ok {
			seen[path] = look(path)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = seen
	w.follow()
}

// Run calls changed when something of what was read last is no longer as it was, until ctx ends. It calls it again for what
// changes next, whether or not changed reads anew.
func (w *Watcher) Run(ctx context.Context, changed func()) error {
	rounds := time.NewTicker(round)
	defer rounds.Stop()
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
		case <-lost: //nolint:errcheck // whatever it is, it is time to look
		case <-rounds.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// settle waits until no more events come, or patience ends. It reports whether ctx lasted.
func settle(ctx context.Context, events <-chan fsnotify.Event) bool {
	end := time.NewTimer(patience)
	defer end.Stop()
	pause := time.NewTimer(quiet)
	defer pause.Stop()
	for {
		select {
		case <-events:
			pause.Reset(quiet)
		case <-pause.C:
			return true
		case <-end.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// differs reports whether anything is no longer as it was when it was last looked at.
func (w *Watcher) differs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.follow() // before looking: of what changes after a look, an event tells
	differs := false
	for path, before := range w.seen {
		now := look(path)
		differs = differs || !now.same(before)
		w.seen[path] = now
	}
	return differs
}

// maxFollow bounds how often follow begins again.
const maxFollow = 10

// follow watches the folders whose entries decide where the paths lead, and no others. Where others do by then, it begins
// again: a folder may have come before the one that it is in was watched.
func (w *Watcher) follow() {
	if w.events == nil {
		return
	}
	wanted := w.wanted()
	for range maxFollow {
		w.watch(wanted)
		before := wanted
		if wanted = w.wanted(); maps.Equal(wanted, before) {
			return
		}
	}
}

// wanted returns the folders whose entries decide where the paths lead now.
func (w *Watcher) wanted() map[string]bool {
	wanted := map[string]bool{}
	for path := range w.seen {
		for _, folder := range foldersOf(path) {
			wanted[folder] = true
		}
	}
	return wanted
}

// watch watches these folders and no others.
func (w *Watcher) watch(wanted map[string]bool) {
	for folder := range w.folders {
		if !wanted[folder] {
			_ = w.events.Remove(folder) // it may be gone
		}
	}
	w.folders = map[string]bool{}
	for folder := range wanted {
		// Adding one that is watched does nothing, unless it is another of that name. One that cannot be watched is left
		// to the rounds.
		if err := w.events.Add(folder); err == nil {
			w.folders[folder] = true
		}
	}
}

// stamp is what tells one state of a file or folder from another.
type stamp struct {
	// info is of what the path leads to, nil where that is nothing.
	info fs.FileInfo
	// names are those of a folder's entries that configurations are read from.
	names []string
}

func look(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	s := stamp{info: info}
	if !info.IsDir() {
		return s
	}
	entries, _ := os.ReadDir(path) // what cannot be read is none
	for _, entry := range entries {
		name := entry.Name()
		if hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"); !hidden && (entry.Type() != 0 || strings.HasSuffix(name, ".hcl")) {
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

// foldersOf returns the folders in which something can change where a path leads: those of each link on the way, that of
// the file, and the file itself where it is a folder. Where the way ends early, the last of them is where it would go on.
func foldersOf(path string) (folders []string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	at, rest := filepath.VolumeName(path)+string(filepath.Separator), strings.TrimPrefix(path, filepath.VolumeName(path))
	for links := 0; links <= maxLinks; {
		name, after, more := strings.Cut(strings.TrimLeft(rest, string(filepath.Separator)), string(filepath.Separator))
		if name == "" {
			return append(folders, at)
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !more && info.Mode().IsRegular():
			return append(folders, at)
		case err != nil:
			return folders
		case info.Mode()&fs.ModeSymlink == 0:
			if !more {
				folders = append(folders, at)
			}
			at, rest = next, after
		default:
			folders = append(folders, at)
			target, err := os.Readlink(next)
			if err != nil {
				return folders
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(at, target)
			}
			links++
			at, rest = filepath.VolumeName(target)+string(filepath.Separator), filepath.Join(strings.TrimPrefix(target, filepath.VolumeName(target)), after)
		}
	}
	return folders
}

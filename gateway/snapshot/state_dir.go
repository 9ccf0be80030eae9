package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/config/regular"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxTemporary is how old a temporary file may be that somebody is still writing. An older one
	// is left over.
	maxTemporary = 10 * time.Minute
	// firstSaveRetry and lastSaveRetry bound the pause before a list that could not be saved is
	// saved again.
	firstSaveRetry = time.Second
	lastSaveRetry  = time.Minute
)

// stateDir keeps the last good list of each upstream on disk, one file each. It
// is the only writer of its folder in this process. Files are replaced as a whole, so that several
// processes may share the folder.
type stateDir struct {
	path   string // empty keeps nothing
	logger *slog.Logger
	// changed holds at most one mark: some list may be newer than its file.
	changed chan struct{}
	// problems are sentences about the lists that could not be saved.
	problems atomic.Pointer[[]string]
}

// openStateDir creates the folder where it does not exist, and removes what a process left over
// that was killed.
func openStateDir(path string, logger *slog.Logger) (*stateDir, error) {
	d := &stateDir{path: path, logger: logger, changed: make(chan struct{}, 1)}
	if path == "" {
		return d, nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	d.removeTemporary()
	signal(d.changed) // where there are no upstreams, nothing else has the team files saved
	return d, nil
}

// removeTemporary removes old temporary files, under the names that save gives them. Failure does
// no harm.
func (d *stateDir) removeTemporary() {
	entries, _ := os.ReadDir(d.path)
	for _, entry := range entries {
		isOurs, _ := filepath.Match("*.[0-9]*.tmp", entry.Name()) // an error would be about the pattern
		info, err := entry.Info()
		if isOurs && err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > maxTemporary {
			_ = os.Remove(filepath.Join(d.path, entry.Name()))
		}
	}
}

// unsaved returns sentences about the lists that could not be saved.
func (d *stateDir) unsaved() []string {
	if problems := d.problems.Load(); problems != nil {
		return *problems
	}
	return nil
}

// load returns the saved list of an upstream. A file that cannot be used is reported and ignored.
func (d *stateDir) load(u config.Upstream) (list List, ok bool) {
	if d.path == "" {
		return List{}, false
	}
	list, err := loadList(d.path, u)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.logger.Warn("saved list ignored", slog.String("upstream", u.Name), slog.Any("error", err))
	}
	return list, err == nil
}

// run saves changed lists and team files until ctx ends, and then once more so that the last change
// is not lost.
func (d *stateDir) run(ctx context.Context, current func() *Generation) error {
	if d.path == "" {
		return nil
	}
	saved := savedFiles{}
	for {
		var due <-chan time.Time
		if at := saved.due(); !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-d.changed:
		case <-due:
		case <-ctx.Done():
			d.saveChanged(ctx, current(), saved, true)
			return nil
		}
		saved = d.saveChanged(ctx, current(), saved, false)
	}
}

// savedFiles are the saved lists by connector: another connector for the same label counts its
// lists from 1 again.
type savedFiles map[*upstream.Connector]savedFile

// savedFile is what is known of one file.
type savedFile struct {
	version uint64 // what is on disk: the count of an upstream's list
	// pace keeps a large list that never stops changing from taking up the disk.
	pace pace
	// err is why the last attempt failed, and retry the pause before the next; empty and 0 if it
	// did not.
	err   string
	retry time.Duration
	// due is when something newer is to be saved; zero if nothing is.
	due time.Time
}

// due returns when the next file is to be saved; zero if none is.
func (s savedFiles) due() (next time.Time) {
	for _, file := range s {
		if !file.due.IsZero() && (next.IsZero() || file.due.Before(next)) {
			next = file.due
		}
	}
	return next
}

// saveChanged saves whatever is newer than its file, now or if it is due. It returns what is known
// of the files then.
func (d *stateDir) saveChanged(ctx context.Context, g *Generation, saved savedFiles, now bool) savedFiles {
	next := make(savedFiles, len(g.Connectors))
	var problems []string
	for _, c := range g.Connectors {
		file, u := saved[c], c.Upstream()
		if state := c.State(); state.Listed && state.Lists != file.version {
			var ok bool
			file, ok = d.attempt(ctx, file, now, "upstream "+u.Name, func() error {
				return d.save(u, state.Definitions)
			})
			if ok {
				file.version = state.Lists
			}
		}
		if file.err != "" {
			problems = append(problems, fmt.Sprintf("the list of upstream %q is not saved in "+
				"state_dir: %s", u.Name, file.err))
		}
		next[c] = file
	}
	d.problems.Store(&problems)
	return next
}

// attempt tries to save something, now or if it is due, and returns what is known of its file then.
func (d *stateDir) attempt(
	ctx context.Context, file savedFile, now bool, what string, save func() error,
) (_ savedFile, ok bool) {
	began := time.Now()
	if file.due = file.pace.due(); !now && began.Before(file.due) {
		return file, false
	}
	err := save()
	ended := time.Now()
	if err != nil {
		cause := causeOf(err)
		if cause != file.err { // once, however often it is tried again
			d.logger.WarnContext(ctx, "not saved in state_dir", slog.String("what", what), slog.Any("error", err))
		}
		retry := min(max(2*file.retry, firstSaveRetry), lastSaveRetry)
		return savedFile{
			version: file.version, err: cause, retry: retry,
			pace: pace{ended: ended, pause: retry}, due: ended.Add(retry),
		}, false
	}
	if file.err != "" {
		d.logger.InfoContext(ctx, "saved in state_dir again", slog.String("what", what))
	}
	return savedFile{version: file.version, pace: file.pace.after(began, ended)}, true
}

// listFormat is the version of the files' layout.
const listFormat = "1"

func listPath(dir string, u config.Upstream) string { return filepath.Join(dir, u.Name+".json") }

// save replaces the file of an upstream. At any moment there is either the old file or the new one,
// never a part.
func (d *stateDir) save(u config.Upstream, definitions []jsontext.Value) error {
	list := wire.Array(slices.DeleteFunc(slices.Clone(definitions), func(definition jsontext.Value) bool {
		// A server may list an invalid definition among others. It would make the whole file
		// unreadable.
		_, err := wire.ParseObject(definition)
		return err != nil
	}))
	content := wire.Object{}.
		With("format", jsontext.Value(listFormat)).
		With("upstream", wire.Quote(serverOf(u))).
		With("sha256", wire.Quote(digest(list))).
		With("definitions", list).JSON()
	return replaceFile(listPath(d.path, u), content)
}

// replaceFile replaces a file as a whole. The new one is readable by its owner only, and stays over
// a failure of power.
func replaceFile(path string, content []byte) error {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	file, err := os.CreateTemp(filepath.Dir(path), name+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	// Synced before the rename, or a failure of power could leave an empty file under the name.
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a rename in a folder last.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) { // some file systems cannot
		err = nil
	}
	return errors.Join(err, folder.Close())
}

// causeOf returns an error of the file system without a temporary file's name, which differs each
// time.
func causeOf(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Op + ": " + pathError.Err.Error()
	}
	return err.Error()
}

// readSaved reads a file of a state_dir.
func readSaved(path string, limit int64) (wire.Object, error) {
	content, err := regular.Read(path, limit, os.OpenFile)
	if err != nil {
		return nil, err
	}
	object, err := wire.ParseObject(content)
	if err == nil && string(object.Get("format")) != listFormat {
		err = errors.New("its format is not " + listFormat)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return object, nil
}

// loadList reads the file of an upstream in a folder.
func loadList(dir string, u config.Upstream) (List, error) {
	path := listPath(dir, u)
	object, err := readSaved(path, maxListFile)
	if err != nil {
		return List{}, err
	}
	list := object.Get("definitions")
	server, _ := object.Text("upstream")
	sum, _ := object.Text("sha256")
	switch {
	case server != serverOf(u):
		return List{}, fmt.Errorf("%s: it is the list of another server: %s", path, server)
	case sum != digest(list):
		return List{}, fmt.Errorf("%s: its content does not match its sha256", path)
	}
	definitions, err := wire.ParseArray(list)
	return List{Server: server, Definitions: definitions}, err
}

// serverOf identifies the server behind an upstream's label, without anything secret.
func serverOf(u config.Upstream) string { return u.Team + "/" + u.Name + " " + u.Address() }

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

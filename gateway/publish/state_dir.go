package publish

import (
	"context"
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
	"github.com/promptweir/promptweir/config/safefile"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxTemporary is the maximum age of a temporary file that another process may still be
	// writing. Older files are left over from killed processes.
	maxTemporary = 10 * time.Minute
	// saveRetry is the time between two attempts to save a list.
	saveRetry = 30 * time.Second
)

// maxListFile bounds a file with a saved list, in bytes.
const maxListFile = 256 << 20

// stateDir saves the last good list of each upstream in a file of its own. Files are replaced as a
// whole, so that several processes may share the folder.
type stateDir struct {
	path   string // if empty, nothing is saved
	logger *slog.Logger
	// changed receives a value if some list may be newer than its file.
	changed chan struct{}
	// problems describes the lists that could not be saved.
	problems atomic.Pointer[[]string]
}

// openStateDir creates the folder if it does not exist, and removes the temporary files of killed
// processes.
func openStateDir(path string, logger *slog.Logger) (*stateDir, error) {
	d := &stateDir{path: path, logger: logger, changed: make(chan struct{}, 1)}
	if path == "" {
		return d, nil
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	d.removeTemporary()
	signal(d.changed) // a list may exist before run begins
	return d, nil
}

// removeTemporary removes old temporary files, which it recognizes by their names. Errors are
// ignored.
func (d *stateDir) removeTemporary() {
	entries, _ := os.ReadDir(d.path)
	for _, entry := range entries {
		isOurs, _ := filepath.Match("*.[0-9]*.tmp", entry.Name()) // the error is nil: the pattern is valid
		info, err := entry.Info()
		if isOurs && err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > maxTemporary {
			_ = os.Remove(filepath.Join(d.path, entry.Name()))
		}
	}
}

// unsaved describes the lists that could not be saved.
func (d *stateDir) unsaved() []string {
	if problems := d.problems.Load(); problems != nil {
		return *problems
	}
	return nil
}

// load returns the saved list of an upstream, or the zero List if no usable list is saved. A file that
// cannot be used is logged and ignored.
func (d *stateDir) load(u config.Upstream) snapshot.List {
	if d.path == "" {
		return snapshot.List{}
	}
	list, err := loadList(d.path, u)
	switch {
	case err == nil:
		return list.OrEmpty()
	case !errors.Is(err, fs.ErrNotExist):
		d.logger.Warn("saved list ignored", slog.String("upstream", u.Name), slog.Any("error", err))
	}
	return snapshot.List{}
}

// run saves changed lists until ctx ends, and a last time afterwards. Lists that change all the
// time are saved for at most a fifth of the time.
func (d *stateDir) run(ctx context.Context, current func() *snapshot.Generation) error {
	if d.path == "" {
		return nil
	}
	saved := savedFiles{}
	for ctx.Err() == nil {
		var retry <-chan time.Time
		if len(d.unsaved()) > 0 {
			retry = time.After(saveRetry)
		}
		select {
		case <-d.changed:
		case <-retry:
		case <-ctx.Done():
		}
		began := time.Now()
		saved = d.saveChanged(ctx, current(), saved)
		select {
		case <-time.After(restFactor * time.Since(began)):
		case <-ctx.Done():
		}
	}
	d.saveChanged(ctx, current(), saved)
	return nil
}

// savedFiles contains the saved lists by connector rather than by label, because a new connector for
// the same label counts its lists from 1 again.
type savedFiles map[snapshot.Connector]savedFile

// savedFile is the state of one file.
type savedFile struct {
	version uint64 // the value of State.Lists for the list on disk
	err     string // the error of the last attempt; empty after a success
}

// saveChanged saves each list that is newer than its file, and returns the new states of the files.
func (d *stateDir) saveChanged(ctx context.Context, g *snapshot.Generation, saved savedFiles) savedFiles {
	next := make(savedFiles, len(g.Connectors))
	var problems []string
	for _, c := range g.Connectors {
		file, u := saved[c], c.Upstream()
		if state := c.State(); state.Listed && state.Lists != file.version {
			what := slog.String("what", "upstream "+u.Name)
			if err := d.save(u, state.Definitions); err == nil {
				if file.err != "" {
					d.logger.InfoContext(ctx, "saved in state_dir again", what)
				}
				file = savedFile{version: state.Lists}
			} else if cause := causeOf(err); cause != file.err { // log a cause once, not per attempt
				d.logger.WarnContext(ctx, "not saved in state_dir", what, slog.Any("error", err))
				file.err = cause
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

// listFormat is the version of the files' layout.
const listFormat = "1"

func listPath(dir string, u config.Upstream) string { return filepath.Join(dir, u.Name+".json") }

// save replaces the file of an upstream. At every moment the folder has either the old or the new
// file, complete.
func (d *stateDir) save(u config.Upstream, definitions []jsontext.Value) error {
	list := wire.Array(slices.DeleteFunc(slices.Clone(definitions), func(definition jsontext.Value) bool {
		// One invalid definition would make the whole file unreadable.
		_, err := wire.ParseObject(definition)
		return err != nil
	}))
	content := wire.Object{}.
		With("format", jsontext.Value(listFormat)).
		With("upstream", wire.Quote(snapshot.ServerOf(u))).
		With("sha256", wire.Quote(snapshot.Digest(list))).
		With("definitions", list).JSON()
	return replaceFile(listPath(d.path, u), content)
}

// replaceFile replaces a file as a whole. Only the owner can read the new file, and it survives a
// power failure.
func replaceFile(path string, content []byte) error {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	file, err := os.CreateTemp(filepath.Dir(path), name+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	// Sync before the rename. Otherwise a power failure could leave an empty file.
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes renames in a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	err = folder.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) { // unsupported by some file systems
		err = nil
	}
	return errors.Join(err, folder.Close())
}

// causeOf returns a file system error without a temporary file's name, which differs each time.
func causeOf(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Op + ": " + pathError.Err.Error()
	}
	return err.Error()
}

// loadList reads the file of an upstream in a folder.
func loadList(dir string, u config.Upstream) (snapshot.List, error) {
	path := listPath(dir, u)
	content, err := safefile.Read(path, maxListFile, os.OpenFile)
	if err != nil {
		return snapshot.List{}, err
	}
	object, err := wire.ParseObject(content)
	if err != nil {
		return snapshot.List{}, fmt.Errorf("%s: %w", path, err)
	}
	list := object.Get("definitions")
	server, _ := object.Text("upstream")
	sum, _ := object.Text("sha256")
	switch {
	case string(object.Get("format")) != listFormat:
		return snapshot.List{}, fmt.Errorf("%s: its format is not %s", path, listFormat)
	case server != snapshot.ServerOf(u):
		return snapshot.List{}, fmt.Errorf("%s: it is the list of another server: %s", path, server)
	case sum != snapshot.Digest(list):
		return snapshot.List{}, fmt.Errorf("%s: its content does not match its sha256", path)
	}
	definitions, err := wire.ParseArray(list)
	return snapshot.List{Server: server, Definitions: definitions}, err
}

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

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// stateDir keeps the last good list of each upstream on disk, one file each. It is the only writer of its folder in this
// process. Files are replaced as a whole, so that several processes may share the folder.
type stateDir struct {
	path   string // empty keeps nothing
	logger *slog.Logger
	// changed holds at most one mark: some list may be newer than its file.
	changed chan struct{}
}

// openStateDir creates the folder where it does not exist.
func openStateDir(path string, logger *slog.Logger) (*stateDir, error) {
	d := &stateDir{path: path, logger: logger, changed: make(chan struct{}, 1)}
	if path == "" {
		return d, nil
	}
	return d, os.MkdirAll(path, 0o700)
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

// signal asks for changed lists to be saved. It never blocks.
func (d *stateDir) signal() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// run saves changed lists until ctx ends, and then once more so that the last change is not lost.
func (d *stateDir) run(ctx context.Context, connectors func() []*upstream.Connector) error {
	if d.path == "" {
		return nil
	}
	var saved map[*upstream.Connector]uint64
	for {
		select {
		case <-d.changed:
			saved = d.saveChanged(ctx, connectors(), saved)
		case <-ctx.Done():
			d.saveChanged(ctx, connectors(), saved)
			return nil
		}
	}
}

// saveChanged saves each list whose count differs from that in saved. It returns the counts of what is on disk then.
func (d *stateDir) saveChanged(
	ctx context.Context, connectors []*upstream.Connector, saved map[*upstream.Connector]uint64,
) map[*upstream.Connector]uint64 {
	now := map[*upstream.Connector]uint64{}
	for _, c := range connectors {
		now[c] = saved[c]
		state := c.State()
		if !state.Listed || state.Lists == saved[c] {
			continue
		}
		if err := d.save(c.Upstream(), state.Definitions); err != nil {
			d.logger.WarnContext(ctx, "list not saved", slog.String("upstream", c.Upstream().Name), slog.Any("error", err))
			continue
		}
		now[c] = state.Lists
	}
	return now
}

// listFormat is the version of the files' layout.
const listFormat = "1"

func listPath(dir string, u config.Upstream) string { return filepath.Join(dir, u.Name+".json") }

// save replaces the file of an upstream. At any moment there is either the old file or the new one, never a part.
func (d *stateDir) save(u config.Upstream, definitions []jsontext.Value) error {
	list := []byte{'['}
	for _, definition := range definitions {
		// A server may list an invalid definition among others. It would make the whole file unreadable.
		if _, err := wire.ParseObject(definition); err != nil {
			continue
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, definition...)
	}
	list = append(list, ']')
	content := wire.Object{}.
		With("format", jsontext.Value(listFormat)).
		With("upstream", wire.Quote(serverOf(u))).
		With("sha256", wire.Quote(digest(list))).
		With("definitions", list).JSON()
	file, err := os.CreateTemp(d.path, u.Name+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), listPath(d.path, u))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// loadList reads the file of an upstream in a folder.
func loadList(dir string, u config.Upstream) (List, error) {
	path := listPath(dir, u)
	content, err := os.ReadFile(path)
	if err != nil {
		return List{}, err
	}
	object, err := wire.ParseObject(content)
	if err != nil {
		return List{}, fmt.Errorf("%s: %w", path, err)
	}
	list := object.Get("definitions")
	server, _ := object.Text("upstream")
	sum, _ := object.Text("sha256")
	switch {
	case string(object.Get("format")) != listFormat:
		return List{}, fmt.Errorf("%s: its format is not %s", path, listFormat)
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

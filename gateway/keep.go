package gateway

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

// keeper keeps the last good list of each upstream on disk, a file each. It is the only writer of its folder in this
// process; files are replaced whole, so that several processes may share one.
type keeper struct {
	gateway *Gateway
	dir     string // empty keeps nothing
	// changed holds at most one mark: that some list may be newer than its file.
	changed chan struct{}
}

// newKeeper makes the folder where it is not there.
func newKeeper(g *Gateway, dir string) (*keeper, error) {
	k := &keeper{gateway: g, dir: dir, changed: make(chan struct{}, 1)}
	if dir == "" {
		return k, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return k, nil
}

// restore returns the list of an upstream that was kept, nil where there is none. A file that cannot be used is reported
// and ignored.
func (k *keeper) restore(u config.Upstream) []jsontext.Value {
	if k.dir == "" {
		return nil
	}
	definitions, err := loadKept(k.dir, u)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		k.gateway.logger.Warn("kept list ignored", slog.String("upstream", u.Name), slog.Any("error", err))
		return nil
	}
	return notNil(definitions)
}

// notNil keeps a list that is empty from being none.
func notNil(definitions []jsontext.Value) []jsontext.Value {
	return append(make([]jsontext.Value, 0, len(definitions)), definitions...)
}

// signal asks for lists to be kept. It never blocks.
func (k *keeper) signal() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// run writes lists that changed, until ctx ends; then once more, so that the last is not lost.
func (k *keeper) run(ctx context.Context) error {
	if k.dir == "" {
		return nil
	}
	var kept map[*upstream.Connector]uint64
	for {
		select {
		case <-k.changed:
			kept = k.saveChanged(ctx, kept)
		case <-ctx.Done():
			k.saveChanged(ctx, kept)
			return nil
		}
	}
}

// saveChanged writes each list that is another than the one whose count is in kept. It returns the counts of what is on
// disk then.
func (k *keeper) saveChanged(ctx context.Context, kept map[*upstream.Connector]uint64) map[*upstream.Connector]uint64 {
	now := map[*upstream.Connector]uint64{}
	for _, c := range k.gateway.setup().connectors {
		now[c] = kept[c]
		state := c.State()
		if !state.Listed || state.Lists == kept[c] {
			continue
		}
		if err := k.save(c.Upstream(), state.Definitions); err != nil {
			k.gateway.logger.WarnContext(ctx, "list not kept", slog.String("upstream", c.Upstream().Name), slog.Any("error", err))
			continue
		}
		now[c] = state.Lists
	}
	return now
}

// keptFormat is the version of the files' layout.
const keptFormat = "1"

func keptPath(dir string, u config.Upstream) string { return filepath.Join(dir, u.Name+".json") }

// save replaces the file of an upstream. At any moment there is the old one or the new one, never a part.
func (k *keeper) save(u config.Upstream, definitions []jsontext.Value) error {
	list := []byte{'['}
	for i, definition := range definitions {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, definition...)
	}
	list = append(list, ']')
	content := wire.Object{}.
		With("format", jsontext.Value(keptFormat)).
		With("upstream", wire.Quote(source(u))).
		With("sha256", wire.Quote(digest(list))).
		With("definitions", list).JSON()
	file, err := os.CreateTemp(k.dir, u.Name+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), keptPath(k.dir, u))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// loadKept reads the file of an upstream in a folder.
func loadKept(dir string, u config.Upstream) ([]jsontext.Value, error) {
	path := keptPath(dir, u)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	object, err := wire.ParseObject(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	list := object.Get("definitions")
	of, _ := object.Text("upstream")
	sum, _ := object.Text("sha256")
	switch {
	case string(object.Get("format")) != keptFormat:
		return nil, fmt.Errorf("%s: not of format %s", path, keptFormat)
	case of != source(u):
		return nil, fmt.Errorf("%s: it is the list of another server: %s", path, of)
	case sum != digest(list):
		return nil, fmt.Errorf("%s: its content does not match its sha256", path)
	}
	return wire.ParseArray(list)
}

// source says which server a list is from, with nothing secret in it: the label alone may have moved to another server.
func source(u config.Upstream) string { return u.Team + "/" + u.Name + " " + u.Address() }

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

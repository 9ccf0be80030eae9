package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config/clientfile"
	"github.com/promptweir/promptweir/config/safefile"
	"github.com/promptweir/promptweir/gateway/clientsetup"
)

// clientInstall adds the gateway to a client's file.
type clientInstall struct {
	app    *app
	client clientsetup.Client
	// folder is the path of root, for messages. name is the file's path below root.
	root         *os.Root
	folder, name string
}

// installClient shows the change of a client's file, and makes it if the user agrees or yes is true.
func installClient(ctx context.Context, a *app, c clientsetup.Client, yes bool) error {
	prompter := terminal.NewPrompter(a.in)
	switch {
	case c.File == "":
		return &usageError{"--install cannot set up " + c.Title + ": use what promptweir client " + c.Name + " prints"}
	case !yes && prompter == nil:
		return &usageError{"without a terminal, --install needs --yes"}
	}
	i := &clientInstall{app: a, client: c, folder: ".", name: filepath.FromSlash(c.File)}
	if inHome, ok := strings.CutPrefix(c.File, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return errors.New("the home folder is unknown: set HOME")
		}
		i.folder, i.name = home, filepath.FromSlash(inHome)
	}
	var err error
	if i.root, err = os.OpenRoot(i.folder); err != nil {
		return err
	}
	defer i.root.Close()
	before, err := i.read()
	if err != nil {
		return err
	}
	after := before
	for _, edit := range c.Edits {
		if after, err = clientfile.Apply(after, edit); err != nil {
			return fmt.Errorf("%s: %w; change it by hand: see promptweir client %s", i.path(), err, c.Name)
		}
	}
	if bytes.Equal(before, after) {
		return a.printf("%s already has this server\n", i.path())
	}
	if err := i.show(); err != nil {
		return err
	}
	if !yes {
		if isWanted, err := prompter.Confirm(ctx, "Write it?"); err != nil || !isWanted {
			return cmp.Or(err, errors.New("nothing was written"))
		}
	}
	return i.write(before, after)
}

func (i *clientInstall) path() string { return filepath.Join(i.folder, i.name) }

// read returns the content of the file, or nil if it does not exist. It refuses links: their targets are
// often generated or in a repository, and must not be changed here.
func (i *clientInstall) read() ([]byte, error) {
	for at := i.name; at != "."; at = filepath.Dir(at) {
		info, err := i.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, fmt.Errorf("%s is a link, and links are not followed: change its "+
				"target by hand, see promptweir client %s", filepath.Join(i.folder, at), i.client.Name)
		}
	}
	content, err := safefile.Read(i.name, maxClientFile, i.root.OpenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// show prints only the new settings: the file may contain secrets of other servers, even on the same line.
func (i *clientInstall) show() error {
	fmt.Fprintf(i.app.out, "%s:\n", i.path())
	for _, edit := range i.client.Edits {
		fmt.Fprintf(i.app.out, "+ %s: ", strings.Join(edit.Path, "."))
		if err := terminal.PrintJSON(i.app.out, edit.Value); err != nil {
			return err
		}
	}
	return nil
}

// write replaces the file, after it has saved a copy of the previous content.
func (i *clientInstall) write(before, after []byte) error {
	// The client may have changed the file while the user was asked.
	if now, err := i.read(); err != nil || !bytes.Equal(now, before) {
		return errors.Join(err, fmt.Errorf("%s has changed in the meantime, so nothing was "+
			"written: try again", i.path()))
	}
	if before == nil {
		if err := i.root.MkdirAll(filepath.Dir(i.name), folderMode); err != nil {
			return err
		}
		// This fails if the client has created the file in the meantime.
		if err := safefile.WriteNew(i.name, after, fileMode, i.root.OpenFile); err != nil {
			return err
		}
		return i.app.printf("written. %s\n", i.client.Then)
	}
	backup, err := i.backUp(before)
	if err != nil {
		return err
	}
	if err := replaceWithin(i.root, i.name, after); err != nil {
		return err
	}
	return i.app.printf("written; the previous file is %s. %s\n", filepath.Join(i.folder, backup), i.client.Then)
}

// backUp writes a copy under an unused name, and returns the name.
func (i *clientInstall) backUp(content []byte) (name string, err error) {
	for n := 0; ; n++ {
		name = i.name + ".bak"
		if n > 0 {
			name += strconv.Itoa(n)
		}
		if err = safefile.WriteNew(name, content, fileMode, i.root.OpenFile); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

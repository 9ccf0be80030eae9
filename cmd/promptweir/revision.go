package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// repository is a git repository of which only objects are read, without a checkout: a configuration may be
// an untrusted pull request, and a checkout would run the filters that its files configure.
type repository struct {
	folder string // contains .git
	within string // the configuration's folder relative to the repository, with slashes
}

// repositoryOf returns the repository of a folder: the nearest folder with a .git, at or above it. It does
// not let git search: a commit cannot contain a .git, but git also accepts a bare repository, which a commit
// can contain.
func repositoryOf(folder string) (repository, error) {
	folder, err := resolved(folder)
	for top := folder; err == nil; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			within, err := filepath.Rel(top, folder)
			return repository{top, filepath.ToSlash(within)}, err
		}
		if top == filepath.Dir(top) {
			return repository{}, errors.New("not a git repository")
		}
	}
	return repository{}, err
}

// command returns a git command that does not run programs that the repository's configuration names, and
// does not fetch.
func (r repository) command(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{
		"-c", "safe.bareRepository=explicit", "-c", "protocol.allow=never",
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull,
	}, args...)
	command := exec.CommandContext(ctx, "git", args...) //nolint:gosec // no argument from outside begins with a hyphen
	command.Dir = r.folder
	// GIT_ALLOW_PROTOCOL also works in versions without GIT_NO_LAZY_FETCH, and overrides the repository's
	// settings.
	command.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_CONFIG_NOSYSTEM=1")
	return command
}

func (r repository) output(ctx context.Context, args ...string) (string, error) {
	printed, err := r.command(ctx, args...).Output()
	return strings.TrimSuffix(string(printed), "\n"), gitError(err)
}

// find returns the hashes of a revision's commit, and of the configuration's folder in that commit.
func (r repository) find(ctx context.Context, revision string) (commit, tree string, err error) {
	if commit, err = r.output(ctx, "rev-parse", "--verify", revision+"^{commit}"); err != nil {
		return "", "", err
	}
	name := commit + ":" + r.within
	if r.within == "." {
		name = commit + "^{tree}"
	}
	tree, err = r.output(ctx, "rev-parse", "--verify", name)
	return commit, tree, err
}

// write writes the files and links of a tree to a new folder.
func (r repository) write(ctx context.Context, tree, folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder) // keeps the commit's paths inside folder
	if err != nil {
		return err
	}
	defer root.Close()
	list, err := r.output(ctx, "ls-tree", "-r", "-z", tree)
	if err != nil {
		return err
	}
	type entry struct {
		path   string
		isLink bool
	}
	var files []entry
	var objects strings.Builder
	for line := range strings.SplitSeq(list, "\x00") {
		about, path, _ := strings.Cut(line, "\t")
		if fields := strings.Fields(about); len(fields) == 3 && fields[1] == "blob" { // skips submodules
			files = append(files, entry{filepath.FromSlash(path), fields[0] == "120000"})
			objects.WriteString(fields[2] + "\n")
		}
	}
	command := r.command(ctx, "cat-file", "--batch")
	command.Stdin = strings.NewReader(objects.String())
	contents, failure := command.Output() // writeObject reports a missing content first
	in := bytes.NewReader(contents)
	for _, file := range files {
		if err := writeObject(root, file.path, file.isLink, in); err != nil {
			return err
		}
	}
	return gitError(failure)
}

// writeObject writes the next object of the output of git cat-file to a file or a link.
func writeObject(root *os.Root, path string, isLink bool, in *bytes.Reader) error {
	var object, kind string
	var size int64
	if _, err := fmt.Fscanf(in, "%s %s %d\n", &object, &kind, &size); err != nil {
		return fmt.Errorf("git has no content of %s here; fetch it with git", path)
	}
	content, err := io.ReadAll(io.LimitReader(in, size))
	_, _ = in.ReadByte() // the line break after each object
	if err == nil {
		err = root.MkdirAll(filepath.Dir(path), 0o700)
	}
	switch {
	case err != nil:
		return err
	case isLink:
		return root.Symlink(string(content), path)
	}
	return root.WriteFile(path, content, 0o600)
}

// gitError replaces the exit status of git by its message.
func gitError(err error) error {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		message := strings.TrimPrefix(strings.TrimSpace(string(failed.Stderr)), "fatal: ")
		if message == "Needed a single revision" { // git's message for an unknown revision
			message = "there is no such commit here; git fetch gets those of the remote"
		}
		return errors.New(message)
	}
	return err
}

package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// starter contains a first configuration: the gateway's file, a team's file, and a prompt.
//
//go:embed starter
var starter embed.FS

// starterEndpoint is the endpoint of a gateway that uses the files of starter.
const starterEndpoint = "http://127.0.0.1:8080/mcp"

func initCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "init [FOLDER]", Short: "Write a first configuration",
		Args: wantArgs(0, 1, "a folder"),
		Long: `Write a first configuration, and print the next steps.

FOLDER (by default promptweir) gets the gateway's file, a commented team file, and a prompt. If
any of these files exists, nothing is written.`,
		Example: "  promptweir init\n  promptweir init /etc/promptweir",
		RunE: func(_ *cobra.Command, args []string) error {
			folder := "promptweir"
			if len(args) > 0 {
				folder = args[0]
			}
			return writeStarter(a, folder)
		},
	}
}

func writeStarter(a *app, folder string) error {
	files, err := fs.Sub(starter, "starter")
	if err != nil {
		return err
	}
	// Check this first: CopyFS stops at an existing file after it has written others.
	paths, err := newPaths(files, folder)
	if err == nil {
		err = os.CopyFS(folder, files)
	}
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	for _, path := range paths {
		fmt.Fprintln(a.out, path)
	}
	program := os.Args[0]
	return a.printf(
		"\nServe it, and in another shell list its prompts and point a client at it:\n\n"+
			"  %[1]s serve --config %[2]s\n  %[1]s list --url %[3]s\n  %[1]s client claude --url %[3]s\n", program, folder, starterEndpoint)
}

// newPaths returns the paths that files will have in a folder. If one of them already exists, it returns an
// error.
func newPaths(files fs.FS, folder string) (paths []string, err error) {
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if info, err := os.Lstat(path); name != "." && err == nil && !info.IsDir() { // also for a link, which may lead anywhere
				return fmt.Errorf("%s is no folder, so nothing was written; name another folder", path)
			}
			return nil
		}
		paths = append(paths, path)
		if _, err = os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return cmp.Or(err, fmt.Errorf("%s already exists, so nothing was written; name another folder", path))
	})
	return paths, err
}

package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// starter is a configuration to begin with: a file of the platform team, a team's, and a prompt.
//
//go:embed starter
var starter embed.FS

// starterEndpoint is where the gateway of the starter serves clients.
const starterEndpoint = "http://127.0.0.1:8080/mcp"

func initCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "init [FOLDER]", Short: "Write a configuration to begin with",
		Args: takes(0, 1, "a folder"),
		Long: "Write a configuration to begin with, and print what to do next.\n\n" +
			"FOLDER (by default promptweir) gets the gateway's file, a commented team file, and a prompt. If any of these files exists, " +
			"nothing is written.",
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
	if err := checkNoneExists(files, folder); err != nil {
		return err
	}
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		path := filepath.Join(folder, filepath.FromSlash(name))
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(path, 0o755)
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := writeNew(path, content, newFileMode); err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.out, path)
		return err
	})
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	program := os.Args[0]
	_, err = fmt.Fprintf(a.out,
		"\nServe it, and in another shell list its prompts and point a client at it:\n\n"+
			"  %[1]s serve --config %[2]s\n  %[1]s list --url %[3]s\n  %[1]s client claude --url %[3]s\n", program, folder, starterEndpoint)
	return err
}

// checkNoneExists returns an error if one of the files is in the folder already.
func checkNoneExists(files fs.FS, folder string) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path := filepath.Join(folder, filepath.FromSlash(name))
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("init: %s already exists, so nothing was written; remove it, or name another folder", path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("init: %w", err)
		}
		return nil
	})
}

// writeNew writes a file that does not exist yet. It follows no link, not even one to nothing:
// O_EXCL says so.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

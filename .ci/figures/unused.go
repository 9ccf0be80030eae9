package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// printUnused prints the functions that no program reaches, by golang.org/x/tools/cmd/deadcode.
func printUnused(ctx context.Context, dir, tools string) error {
	bin, err := os.MkdirTemp("", "figures")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	tool := filepath.Join(bin, "deadcode")
	if err := command(ctx, filepath.Dir(filepath.Dir(tools)), "go", "build", "-modfile="+tools, "-o", tool, "golang.org/x/tools/cmd/deadcode"); err != nil {
		return err
	}
	fmt.Print("\n## Dead code\n\n")
	for _, kind := range []struct {
		what string
		args []string
	}{
		{"reached by no program and no test", []string{"-test", "./..."}},
		{"reached by tests only", []string{"./..."}},
	} {
		c := exec.CommandContext(ctx, tool, kind.args...)
		c.Dir, c.Stderr = dir, os.Stderr
		out, err := c.Output()
		if err != nil {
			return fmt.Errorf("deadcode: %w", err)
		}
		var found []string
		for line := range strings.Lines(string(out)) {
			place, name, _ := strings.Cut(strings.TrimSpace(line), ": unreachable func: ")
			path, _, _ := strings.Cut(place, ":")
			if !forTests(path) {
				found = append(found, fmt.Sprintf("`%s` (%s)", name, path))
			}
		}
		fmt.Printf("- %d functions %s%s\n", len(found), kind.what, list(found))
	}
	return nil
}

// forTests reports whether a file is a test or of a package for tests, such as upstream/upstreamtest.
func forTests(path string) bool {
	return strings.HasSuffix(path, "_test.go") || strings.Contains(filepath.Dir(path)+"/", "test/")
}

func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}

// command runs a command that should print nothing.
func command(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said.Bytes())
	}
	return nil
}

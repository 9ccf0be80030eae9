package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplaceFile_FollowsLinksBeneathTheFolderOnly(t *testing.T) {
	for target, want := range map[string]string{
		"real.hcl":              "",
		"..data/real.hcl":       "",
		"new.hcl":               "",
		"../outside.hcl":        "and is not written",
		"../not-yet.hcl":        "escapes",
		"away/outside.hcl":      "and is not written",
		"away/not-yet.hcl":      "escapes",
		"..data/../../conf/x/y": "escapes",
	} {
		dir := t.TempDir()
		folder := filepath.Join(dir, "conf")
		for _, path := range []string{"outside.hcl", "conf/real.hcl", "conf/..data/real.hcl"} {
			path = filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("before"), 0o640); err != nil {
				t.Fatal(err)
			}
		}
		for link, to := range map[string]string{"conf/link.hcl": target, "conf/away": "..", "other": "conf"} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		for _, within := range []string{folder, filepath.Join(dir, "other")} { // the latter is a link itself
			link := filepath.Join(within, "link.hcl")
			err := replaceFile(within, link, []byte("after"))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("link to %s: %v, want %q", target, err, want)
			}
			if got, _ := os.ReadFile(link); want == "" && string(got) != "after" {
				t.Errorf("link to %s: %q is written", target, got)
			}
			if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
				t.Errorf("link to %s: it is no link any more", target)
			}
		}
		if got, err := os.ReadFile(filepath.Join(dir, "outside.hcl")); string(got) != "before" || err != nil {
			t.Errorf("link to %s: outside of the folder is %q, %v", target, got, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "not-yet.hcl")); err == nil {
			t.Errorf("link to %s: a file was made outside of the folder", target)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, ".*.tmp")); len(left) > 0 {
			t.Errorf("link to %s: %q are left", target, left)
		}
		// Whoever names a file means what it is a link to.
		if err := replaceFile("", filepath.Join(folder, "link.hcl"), []byte("meant")); target == "../outside.hcl" && err != nil {
			t.Errorf("link to %s: %v", target, err)
		}
	}
}

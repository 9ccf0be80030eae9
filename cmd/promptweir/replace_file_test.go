package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplaceFile_FollowsLinksBeneathTheFolderOnly(t *testing.T) {
	for target, want := range map[string]string{
		"real.hcl":         "",
		"new.hcl":          "exists", // the link does, and its target does not
		"../outside.hcl":   "and is not written",
		"../not-yet.hcl":   "exists",
		"away/outside.hcl": "and is not written",
	} {
		dir := t.TempDir()
		folder := filepath.Join(dir, "conf")
		link := filepath.Join(folder, "link.hcl")
		putFile(t, dir, "outside.hcl", "before")
		putFile(t, folder, "real.hcl", "before")
		for path, to := range map[string]string{link: target, filepath.Join(folder, "away"): ".."} {
			if err := os.Symlink(to, path); err != nil {
				t.Fatal(err)
			}
		}
		err := replaceFile(folder, link, []byte("after"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("link to %s: %v, want %q", target, err, want)
		}
		if got, _ := os.ReadFile(link); want == "" && string(got) != "after" {
			t.Errorf("link to %s: %q is written", target, got)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("link to %s: it is no link any more", target)
		}
		outside, _ := os.ReadFile(filepath.Join(dir, "outside.hcl"))
		if _, err := os.Stat(filepath.Join(dir, "not-yet.hcl")); string(outside) != "before" || err == nil {
			t.Errorf("link to %s: a file outside of the folder is written", target)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, ".*.tmp")); len(left) > 0 {
			t.Errorf("link to %s: %q are left", target, left)
		}
		// A link that the caller names is followed.
		if err := replaceFile("", link, []byte("meant")); target == "../outside.hcl" && err != nil {
			t.Errorf("link to %s: %v", target, err)
		}
	}
}

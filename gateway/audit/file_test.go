package audit

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a process leaves that was killed, or that ended while the disk was full, is gone when the next one has the file.
func TestOpen_CutsOffATornLine(t *testing.T) {
	whole := string(get("a").encode())
	torn := strings.TrimSuffix(string(get("b").encode()), "\n")
	after := string(get("c").encode())
	foreign := "something else"
	for name, test := range map[string]struct{ before, want string }{
		"no file content":          {"", after},
		"whole lines":              {whole + whole, whole + whole + after},
		"a torn line":              {whole + torn[:len(torn)/2], whole + after},
		"all but the line feed":    {whole + torn, whole + after},
		"one byte":                 {whole + torn[:1], whole + after},
		"nothing else":             {torn, after},
		"no line of this log":      {whole + foreign, whole + foreign + "\n" + after},
		"another program's file":   {foreign, foreign + "\n" + after},
		"a very long unknown tail": {strings.Repeat("x", maxTail+1), strings.Repeat("x", maxTail+1) + "\n" + after},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			if err := os.WriteFile(path, []byte(test.before), fileMode); err != nil {
				t.Fatal(err)
			}
			f, err := openFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte(after)); err != nil {
				t.Fatal(err)
			}
			if err := f.reopen(); err != nil { // by SIGHUP, without a rotation
				t.Fatal(err)
			}
			defer f.Close()
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got %.200q, want %.200q", got, test.want)
			}
		})
	}
}

// A file that may only be appended to is used as it is.
func TestOpen_NeedsNoPermissionToRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte("{"), 0o200); err != nil {
		t.Fatal(err)
	}
	f, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("x\n")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.FileMode(0o200) {
		t.Errorf("%v, %v", info, err)
	}
}

package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// A partial line, left by a process that ended while the disk was full, does not spoil the next line.
func TestOpen_BeginsOnALineOfItsOwn(t *testing.T) {
	whole, after := string(get("a").encode()), string(get("c").encode())
	torn := whole[:len(whole)/2]
	for name, test := range map[string]struct{ before, want string }{
		"no file content":       {"", after},
		"whole lines":           {whole + whole, whole + whole + after},
		"a torn line":           {whole + torn, whole + torn + "\n" + after},
		"all but the line feed": {whole[:len(whole)-1], whole + after},
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

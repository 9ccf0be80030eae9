package safefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config/safefile"
)

func TestRead_RefusesWhatIsNotARegularFileWithinTheBound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := safefile.Read(file, 7, os.OpenFile); err != nil || string(got) != "content" {
		t.Errorf("Read = %q, %v", got, err)
	}
	_, err := safefile.Read(file, 6, os.OpenFile)
	if tooLarge, ok := errors.AsType[*safefile.TooLargeError](err); !ok || tooLarge.Limit != 6 {
		t.Errorf("Read of 7 bytes with a limit of 6: %v", err)
	}
	if _, err := safefile.Read(dir, 7, os.OpenFile); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("Read of a folder: %v", err)
	}
	if _, err := safefile.Read(filepath.Join(dir, "none"), 7, os.OpenFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of nothing: %v", err)
	}
}

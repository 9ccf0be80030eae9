package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config/regular"
)

func TestRead_RefusesWhatIsNotARegularFileWithinTheBound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := regular.Read(file, 7, os.OpenFile); err != nil || string(got) != "content" {
		t.Errorf("Read = %q, %v", got, err)
	}
	_, err := regular.Read(file, 6, os.OpenFile)
	if tooLarge, ok := errors.AsType[*regular.TooLargeError](err); !ok || tooLarge.Limit != 6 {
		t.Errorf("Read of 7 bytes with a limit of 6: %v", err)
	}
	if _, err := regular.Read(dir, 7, os.OpenFile); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("Read of a folder: %v", err)
	}
	if _, err := regular.Read(filepath.Join(dir, "none"), 7, os.OpenFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of nothing: %v", err)
	}
}

func TestReadActual_RefusesAFileThatTookThePlaceOfAnother(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(file, []byte("mine"), 0o600), os.WriteFile(other, []byte("SECRET"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := regular.ReadActual(file, file, 7, os.OpenFile); err != nil || string(got) != "mine" {
		t.Errorf("ReadActual = %q, %v", got, err)
	}
	swapped := func(path string, flag int, mode fs.FileMode) (*os.File, error) {
		if err := errors.Join(os.Remove(path), os.Symlink(other, path)); err != nil {
			return nil, err
		}
		return os.OpenFile(path, flag, mode)
	}
	if got, err := regular.ReadActual(file, file, 7, swapped); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("ReadActual of a link that was swapped in = %q, %v", got, err)
	}
}

package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// maxLinks bounds the links on the way to one file.
const maxLinks = 40

// stamp tells one state of a file or folder from another.
type stamp struct {
	// info describes what the path leads to; nil if that does not exist.
	info fs.FileInfo
	// names are the entries of a folder that can hold configuration.
	names []string
}

func newStamp(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	s := stamp{info: info}
	if !info.IsDir() {
		return s
	}
	entries, _ := os.ReadDir(path) // an unreadable folder counts as empty
	for _, entry := range entries {
		// An editor's backup or swap file must not count as a change.
		name := entry.Name()
		isHidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
		if !isHidden && (entry.Type() != 0 || strings.HasSuffix(name, ".hcl")) {
			s.names = append(s.names, name)
		}
	}
	return s
}

func (s stamp) same(other stamp) bool {
	if s.info == nil || other.info == nil {
		return s.info == nil && other.info == nil
	}
	if s.info.IsDir() && other.info.IsDir() {
		return slices.Equal(s.names, other.names)
	}
	return os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() &&
		s.info.ModTime().Equal(other.info.ModTime()) && changeTime(s.info) == changeTime(other.info)
}

// changeTime returns when the system last changed anything about a file, where it says so: tools
// such as rsync set the time of modification, and a token of the same length may be written over
// another.
func changeTime(info fs.FileInfo) (at [2]int64) {
	system := reflect.Indirect(reflect.ValueOf(info.Sys()))
	if system.Kind() != reflect.Struct {
		return at
	}
	for _, name := range []string{"Ctim", "Ctimespec"} { // of Linux, and of macOS
		if field := system.FieldByName(name); field.IsValid() {
			at = [2]int64{field.FieldByName("Sec").Int(), field.FieldByName("Nsec").Int()}
		}
	}
	return at
}

// foldersOf returns the folders whose entries decide where a path leads: the folder of each link on
// the way, that of the file, and the file itself if it is a folder. If the path ends early, the
// last one is where it would continue.
func foldersOf(path string) (folders []string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	at, rest := filepath.VolumeName(path)+string(filepath.Separator), strings.TrimPrefix(path, filepath.VolumeName(path))
	// One name at a time, as the system resolves a path: at is a folder that was reached, and rest
	// is what is left of the path.
	for links := 0; links <= maxLinks; {
		name, after, more := strings.Cut(strings.TrimLeft(rest, string(filepath.Separator)), string(filepath.Separator))
		if name == "" {
			return append(folders, at)
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && !more && info.Mode().IsRegular():
			return append(folders, at)
		case err != nil:
			return folders
		case info.Mode()&fs.ModeSymlink == 0:
			if !more {
				folders = append(folders, at)
			}
			at, rest = next, after
		default: // a link: the walk goes on at its target
			folders = append(folders, at)
			target, err := os.Readlink(next)
			if err != nil {
				return folders
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(at, target)
			}
			links++
			at, rest = filepath.VolumeName(target)+string(filepath.Separator), filepath.Join(strings.TrimPrefix(target, filepath.VolumeName(target)), after)
		}
	}
	return folders
}

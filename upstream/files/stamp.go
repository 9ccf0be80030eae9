package files

import (
	"cmp"
	"io/fs"
	"os"
	"time"

	"github.com/promptweir/promptweir/upstream/system"
)

const (
	// tick and coarseTick are how long a file may change again without another time: on most file
	// systems, and on those that know seconds only.
	tick       = 100 * time.Millisecond
	coarseTick = 2 * time.Second
)

// stamp tells one state of a file from another, without reading it. The zero stamp is that of no
// file.
type stamp struct {
	exists bool
	id     system.FileID // of the file that links lead to
	size   int64
	mode   fs.FileMode
	// modified is what programs may set, such as cp -p; changed is the system's own, 0 where it has
	// none. Both in nanoseconds.
	modified, changed int64
	// unsettled means that a later change may not show: the file was very new, or could not be
	// read.
	unsettled bool
}

func newStamp(info fs.FileInfo, path string) stamp {
	s := stamp{exists: true, size: info.Size(), mode: info.Mode(), modified: info.ModTime().UnixNano()}
	s.id, s.changed = system.Identify(info, path)
	// Where the system has a time of its own, a file that a program dated in the future, and which
	// would never be old enough by that date, is not read again in every pass.
	latest, least := cmp.Or(s.changed, s.modified), tick
	if time.Unix(0, latest).Nanosecond() == 0 {
		least = coarseTick
	}
	s.unsettled = time.Since(time.Unix(0, latest)) < least
	return s
}

// stampOf returns the stamp of the file at a path.
func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		// Whatever the error is: once the file can be looked at, its stamp is another one.
		return stamp{}
	}
	return newStamp(info, path)
}

func (s stamp) same(other stamp) bool {
	if !s.exists && !other.exists {
		return true
	}
	unsettled := s.unsettled
	s.unsettled, other.unsettled = false, false
	return !unsettled && s == other
}

package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk runs the rest of a test in a process that has a file system of so many bytes, which nobody else sees. It returns where that
// is, or "" in the process of the test itself, which has nothing more to do.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	const folder = "AUDIT_TEST_DISK"
	if path := os.Getenv(folder); path != "" {
		if err := syscall.Mount("none", path, "tmpfs", 0, fmt.Sprint("size=", bytes)); err != nil {
			t.Skipf("no file system can be mounted here: %v", err)
		}
		return path
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), folder+"="+t.TempDir())
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 { // who is root in a name space of its own
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	output, err := command.CombinedOutput()
	_, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && !failed:
		t.Skipf("no process with a file system of its own can be started here: %v", err)
	case failed, !strings.Contains(string(output), t.Name()):
		t.Errorf("%s", output)
	case strings.Contains(string(output), "--- SKIP"):
		t.Skipf("%s", output)
	}
	return ""
}

// filler takes all the room on a disk but for so many bytes, and gives it back.
func filler(t *testing.T, disk string, but int) (empty func()) {
	t.Helper()
	path := filepath.Join(disk, "filler")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := make([]byte, 4096); err == nil; {
		_, err = file.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	end, err := file.Seek(0, 1)
	if err := errors.Join(err, file.Truncate(end-int64(but)), file.Close()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// wholeLines returns the prompts in a log, and fails the test if a line is torn.
func wholeLines(t *testing.T, path string) (prompts []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
		t.Fatalf("the last line is torn: %q", content)
	}
	for _, r := range readRecords(t, content) {
		prompts = append(prompts, r.Prompt+strings.TrimPrefix(r.Event, "get"))
	}
	return prompts
}

// await waits until check returns true.
func await(t *testing.T, what string, check func() bool) {
	t.Helper()
	for begun := time.Now(); !check(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("not true: %s", what)
		}
	}
}

// startOnSmallDisk starts a log on a disk that has room for a hundred lines. Empty makes room for all. The log is nil where there can
// be no such disk, as smallDisk says.
func startOnSmallDisk(t *testing.T, required bool) (l *Log, path string, empty func()) {
	t.Helper()
	disk := smallDisk(t, 256<<10)
	if disk == "" {
		return nil, "", nil
	}
	path = filepath.Join(disk, "audit.jsonl")
	empty = filler(t, disk, 3*4096)
	out, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return start(out, required, quiet()), path, empty
}

func TestFullDisk_KeepsLinesUntilThereIsRoomAgain(t *testing.T) {
	l, path, empty := startOnSmallDisk(t, false)
	if l == nil {
		return
	}
	var want []string
	for i := range 1000 { // ten times what fits
		want = append(want, fmt.Sprintf("p%04d", i))
		if err := l.Write(get(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the disk is full", func() bool { return errors.Is(l.State().Problem, syscall.ENOSPC) })
	written := wholeLines(t, path)
	if len(written) == 0 || len(written) == len(want) {
		t.Errorf("%d lines fit, want some", len(written))
	}
	empty()
	await(t, "all lines are written", func() bool { return l.State().Written == 1000 })
	l.Close()
	if got := wholeLines(t, path); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("recorded %q", got)
	}
}

func TestFullDisk_RequiredRefusesAndLeavesNothingOfWhatItRefused(t *testing.T) {
	l, path, empty := startOnSmallDisk(t, true)
	if l == nil {
		return
	}
	var want []string
	lost := 0
	for i := range 1000 {
		name := fmt.Sprintf("p%04d", i)
		if err := l.Write(get(name)); err == nil {
			want = append(want, name)
		} else if lost++; !errors.Is(err, ErrNotWritten) {
			t.Fatal(err)
		}
	}
	if len(want) == 0 || lost == 0 || !l.Refuses() {
		t.Fatalf("%d lines are written and %d refused", len(want), lost)
	}
	if got := wholeLines(t, path); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
	empty()
	await(t, "it serves again", func() bool { return !l.Refuses() })
	if err := l.Write(get("after")); err != nil {
		t.Error(err)
	}
	l.Close()
	if got := wholeLines(t, path); fmt.Sprint(got) != fmt.Sprint(append(want, "gap", "after")) {
		t.Errorf("recorded %q, want %q, a gap and after", got, want)
	}
}

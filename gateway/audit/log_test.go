package audit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// disk is an output that a test fills up, hangs and rotates.
type disk struct {
	mu    sync.Mutex // guards what follows
	lines []byte
	// rotated is the content before the file was opened again.
	rotated []byte
	// room is the number of bytes that still fit; negative for no bound.
	room int
	// stuck is closed when writes are to go on; nil while they do.
	stuck chan struct{}
}

var errNoSpace = errors.New("no space left on device")

func (d *disk) Write(lines []byte) (int, error) {
	d.mu.Lock()
	stuck := d.stuck
	d.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(lines)
	if d.room >= 0 {
		n = min(n, d.room)
		d.room -= n
	}
	d.lines = append(d.lines, lines[:n]...)
	if n < len(lines) {
		return n, errNoSpace
	}
	return n, nil
}

func (d *disk) reopen() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rotated, d.lines = append(d.rotated, d.lines...), nil
	return nil
}

func (d *disk) Close() error { return nil }

// free makes room without a bound.
func (d *disk) free() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = -1
}

func (d *disk) hang() (unhang func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	stuck := make(chan struct{})
	d.stuck = stuck
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stuck = nil
		close(stuck)
	}
}

// want fails the test unless lines about these prompts were recorded.
func (d *disk) want(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := prompts(t, d.lines); !slices.Equal(got, want) {
		t.Fatalf("recorded %q, want %q", got, want)
	}
}

func prompts(t *testing.T, lines []byte) (names []string) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var read struct{ Prompt string }
		if err := json.Unmarshal(line, &read, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		names = append(names, read.Prompt)
	}
	return names
}

func get(name string) *Line { return &Line{Time: time.Now(), Event: Get, Prompt: name, Outcome: OK} }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func mustWrite(t *testing.T, l *Log, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := l.Write(get(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLog_WritesEachLineOnce(t *testing.T) {
	for _, required := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		out, err := openFile(path)
		if err != nil {
			t.Fatal(err)
		}
		l := start(out, required, quiet())
		var writers sync.WaitGroup
		for w := range 16 {
			writers.Go(func() {
				for i := range 500 {
					if w == 0 && i%100 == 50 { // rotated while lines are written
						if err := os.Rename(path, fmt.Sprintf("%s.%d", path, i)); err != nil {
							t.Error(err)
						}
						l.Reopen()
						awaitFile(t, path)
					}
					mustWrite(t, l, fmt.Sprintf("%d-%d", w, i))
				}
			})
		}
		writers.Wait()
		l.Close()
		files, _ := filepath.Glob(path + "*")
		seen := map[string]int{}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range prompts(t, content) {
				seen[name]++
			}
		}
		for name, n := range seen {
			upstreamtest.Equal(t, 1, n, "required = %v: lines about %s", required, name)
		}
		if s := l.State(); len(seen) != 8000 || s.Written != 8000 || s.Lost != 0 || len(files) != 6 {
			t.Errorf("required = %v: %d lines in %d files, %+v", required, len(seen), len(files), s)
		}
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
	t.Errorf("%s was not made again", path)
}

func TestLog_NotRequiredKeepsLinesWhileTheDiskIsFull(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: 150} // one line and a half
		l := start(d, false, quiet())
		mustWrite(t, l, "a", "b", "c")
		time.Sleep(batchTime)
		synctest.Wait()
		if s := l.State(); !errors.Is(s.Problem, errNoSpace) || l.Refuses() || s.Written != 1 {
			t.Errorf("%+v while the disk is full", s)
		}
		time.Sleep(time.Minute)
		mustWrite(t, l, "d")
		d.free()
		time.Sleep(retryInterval + batchTime)
		synctest.Wait()
		d.want(t, "a", "b", "c", "d") // b was completed
		mustWrite(t, l, "e")
		l.Close()
		d.want(t, "a", "b", "c", "d", "e")
		upstreamtest.Equal(t, (State{Written: 5}), l.State(), "state")
	})
}

func TestLog_NotRequiredCountsWhatDoesNotFitIntoTheQueue(t *testing.T) {
	for name, line := range map[string]*Line{
		"number": get("x"),
		"bytes":  {Event: Get, Prompt: strings.Repeat("\x01", maxText), Rule: strings.Repeat("\x01", maxText)},
	} {
		bubble.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			d := &disk{room: -1}
			l := start(d, false, slog.New(slog.NewTextHandler(&log, nil)))
			unhang := d.hang()
			mustWrite(t, l, "stuck")
			time.Sleep(2 * time.Second)
			fits := min(maxQueued, maxQueuedBytes/len(line.encode()))
			for range fits + 3 {
				if err := l.Write(line); err != nil {
					t.Fatal(err)
				}
			}
			if s := l.State(); s.Lost != 3 || !errors.Is(s.Problem, errSlow) || l.Refuses() {
				t.Errorf("%s: %+v while writes hang", name, s)
			}
			unhang()
			synctest.Wait()
			mustWrite(t, l, "after")
			l.Close()
			if s := l.State(); s != (State{Written: uint64(fits) + 2, Lost: 3}) || !strings.Contains(log.String(), "audit line lost") {
				t.Errorf("%s: %+v, log %s", name, s, log.String())
			}
		})
	}
}

func TestLog_RequiredRefusesWhileTheDiskIsFull(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: 150}
		l := start(d, true, quiet())
		mustWrite(t, l, "a")
		wantRefusal(t, l, "b", writeBound)
		wantRefusal(t, l, "c", 0)
		time.Sleep(10 * time.Second)
		wantRefusal(t, l, "d", 0) // no write has succeeded
		d.free()
		time.Sleep(retryInterval) // no request is needed for that
		synctest.Wait()
		mustWrite(t, l, "e")
		l.Close()
		d.want(t, "a", "b", "e") // b waited to be written
		upstreamtest.Equal(t, (State{Written: 3, Lost: 2}), l.State(), "state")
	})
}

// A failure that is over within the second costs no request anything.
func TestLog_RequiredWaitsForAWriteThatSucceedsInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: 0}
		l := start(d, true, quiet())
		time.AfterFunc(writeBound/2, func() { d.free() })
		mustWrite(t, l, "a")
		l.Close()
	})
}

func wantRefusal(t *testing.T, l *Log, name string, after time.Duration) {
	t.Helper()
	begun := time.Now()
	if err := l.Write(get(name)); !errors.Is(err, ErrNotWritten) || time.Since(begun) != after {
		t.Errorf("%s: %v after %v, want %v after %v", name, err, time.Since(begun), ErrNotWritten, after)
	}
	if time.Sleep(time.Nanosecond); !l.Refuses() {
		t.Errorf("%s is refused, and the next would not be", name)
	}
}

func TestLog_RequiredRefusesWhileAWriteHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := start(d, true, quiet())
		unhang := d.hang()
		var writers sync.WaitGroup
		writers.Go(func() { wantRefusal(t, l, "a", writeBound) })
		time.Sleep(writeBound / 2)
		writers.Go(func() { wantRefusal(t, l, "b", writeBound) }) // queued behind a
		writers.Wait()
		wantRefusal(t, l, "c", 0)
		if s := l.State(); !errors.Is(s.Problem, errSlow) {
			t.Errorf("%+v", s)
		}
		unhang()
		synctest.Wait()
		mustWrite(t, l, "d")
		l.Close()
		d.want(t, "a", "b", "d") // a and b waited to be written
	})
}

// A new file gets the whole line, of which the old one has a part.
func TestLog_ReopenMakesRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: 150}
		l := start(d, false, quiet())
		mustWrite(t, l, "a", "b")
		time.Sleep(batchTime)
		synctest.Wait()
		d.free()
		l.Reopen()
		l.Reopen()
		time.Sleep(retryInterval)
		synctest.Wait()
		d.want(t, "b")
		l.Close()
	})
}

func TestLog_CloseWritesWhatIsLeft(t *testing.T) {
	for name, test := range map[string]struct {
		room, lost int
		hangs      bool
		took       time.Duration
	}{
		"there is room":    {room: -1},
		"the disk is full": {room: 0, lost: 3},
		"the disk hangs":   {room: -1, hangs: true, took: closeBound},
	} {
		bubble.Test(t, func(t *testing.T) {
			d := &disk{room: test.room}
			l := start(d, false, quiet())
			unhang := func() {}
			if test.hangs {
				unhang = d.hang()
			}
			mustWrite(t, l, "a", "b", "c")
			begun := time.Now()
			l.Close()
			if took, s := time.Since(begun), l.State(); took != test.took || s.Lost != uint64(test.lost) {
				t.Errorf("%s: Close took %v, want %v; %+v, want %d lost", name, took, test.took, s, test.lost)
			}
			unhang()
			synctest.Wait()
			if test.lost == 0 {
				d.want(t, "a", "b", "c")
			}
			_ = l.Write(get("late"))
			l.Close()
			upstreamtest.Equal(t, uint64(test.lost)+1, l.State().Lost, "%s: lines lost after another line", name)
		})
	}
}

func TestLog_NilRecordsNothing(t *testing.T) {
	var l *Log
	if err := l.Write(get("a")); err != nil || l.Refuses() || l.State() != (State{}) {
		t.Errorf("%v, %+v", err, l.State())
	}
	l.Reopen()
	l.Close()
	upstreamtest.Equal(t, 0, testing.AllocsPerRun(100, func() { _ = l.Write(&Line{}) }), "allocations of a line")
}

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

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// disk is an output that a test fills up, hangs and rotates. It stands for a small file system; full_linux_test.go has a real one.
type disk struct {
	mu    sync.Mutex // guards what follows
	lines []byte
	// writes counts them.
	writes int
	// room is how many more bytes fit, negative for any number.
	room int
	// stuck is closed when writes are to go on; nil while they do.
	stuck chan struct{}
	// uncut has cut fail, as for a pipe.
	uncut   bool
	reopens int
}

var errFull = errors.New("no space left on device")

func (d *disk) Write(lines []byte) (int, error) {
	d.mu.Lock()
	stuck := d.stuck
	d.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	n := len(lines)
	if d.room >= 0 {
		n = min(n, d.room)
		d.room -= n
	}
	d.lines = append(d.lines, lines[:n]...)
	if n < len(lines) {
		return n, errFull
	}
	return n, nil
}

func (d *disk) cut(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uncut {
		return n == 0
	}
	d.lines = d.lines[:len(d.lines)-n]
	if d.room >= 0 {
		d.room += n
	}
	return true
}

func (d *disk) reopen() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reopens++
	return nil
}

func (d *disk) Close() error { return nil }

// set changes how much room there is, and whether writes hang.
func (d *disk) set(room int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = room
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

// record is what a test reads of a line.
type record struct {
	Event, Prompt string
	Lost, Late    int
	Count         int
}

func (d *disk) records(t *testing.T) []record {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	return readRecords(t, d.lines)
}

func readRecords(t *testing.T, lines []byte) (all []record) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var r record
		if err := json.Unmarshal(line, &r, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// names returns what was recorded, in order.
func (d *disk) names(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range d.records(t) {
		name := r.Prompt
		if r.Event == "gap" {
			name = fmt.Sprintf("gap lost %d late %d", r.Lost, r.Late)
		}
		names = append(names, name)
	}
	return names
}

func (d *disk) want(t *testing.T, want ...string) {
	t.Helper()
	if got := d.names(t); !slices.Equal(got, want) {
		t.Fatalf("recorded %q, want %q", got, want)
	}
}

func get(name string) *Line { return &Line{Time: time.Now(), Event: Get, Prompt: name, Outcome: OK} }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

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
					if err := l.Write(get(fmt.Sprintf("%d-%d", w, i))); err != nil {
						t.Error(err)
					}
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
			for _, r := range readRecords(t, content) {
				seen[r.Prompt]++
			}
		}
		for name, n := range seen {
			if n != 1 {
				t.Errorf("required = %v: %s is recorded %d times", required, name, n)
			}
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

// How many writes there are decides what lines cost beyond the making of them.
func TestLog_WritesManyLinesAtOnce(t *testing.T) {
	for _, required := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			d := &disk{room: -1}
			l := start(d, required, quiet())
			unhang := d.hang()
			var writers sync.WaitGroup
			for range 100 { // the first is being written while the others arrive
				writers.Go(func() {
					if err := l.Write(get("a")); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			time.Sleep(gatherFor)
			unhang()
			writers.Wait()
			l.Close()
			want := 1 // after all have been gathered
			if required {
				want = 2 // the first at once, and then all others
			}
			if d.want(t, slices.Repeat([]string{"a"}, 100)...); d.writes != want {
				t.Errorf("required = %v: %d writes, want %d", required, d.writes, want)
			}
		})
	}
}

func TestLog_NotRequiredKeepsLinesWhileTheDiskIsFull(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := start(d, false, quiet())
		write := func(name string) {
			t.Helper()
			if err := l.Write(get(name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		write("a")
		time.Sleep(gatherFor + time.Millisecond)
		d.want(t, "a")
		d.set(150) // one line and a half
		write("b")
		write("c")
		write("d")
		time.Sleep(gatherFor + time.Millisecond)
		d.want(t, "a", "b")
		if s := l.State(); !errors.Is(s.Problem, errFull) || l.Refuses() || s.Written != 2 {
			t.Errorf("%+v while the disk is full", s)
		}
		write("e")
		time.Sleep(3 * time.Second)
		d.want(t, "a", "b")
		d.set(-1)
		time.Sleep(retryPause + time.Millisecond)
		d.want(t, "a", "b", "c", "d", "e")
		write("f")
		l.Close()
		d.want(t, "a", "b", "c", "d", "e", "f")
		if s := l.State(); s != (State{Written: 6}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestLog_NotRequiredCountsWhatDoesNotFitIntoTheQueue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := start(d, false, quiet())
		unhang := d.hang()
		_ = l.Write(get("stuck"))
		time.Sleep(time.Second)
		long := &Line{Event: Get, Prompt: strings.Repeat("x", maxText), Rule: strings.Repeat("y", maxText)}
		line := len(long.encode())
		fits := maxQueue / line
		for range fits + 3 {
			if err := l.Write(long); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if s := l.State(); s.Lost != 3 || !errors.Is(s.Problem, errSlow) || l.Refuses() {
			t.Errorf("%+v while writes hang", s)
		}
		unhang()
		time.Sleep(time.Second)
		_ = l.Write(get("after"))
		l.Close()
		got := d.names(t)
		if len(got) != fits+3 || got[0] != "stuck" || !slices.Equal(got[fits+1:], []string{"gap lost 3 late 0", "after"}) && !slices.Equal(got[fits+1:], []string{"after", "gap lost 3 late 0"}) {
			t.Errorf("%d lines, the last %q", len(got), got[max(0, len(got)-3):])
		}
	})
}

func TestLog_RequiredRefusesWhileTheDiskIsFull(t *testing.T) {
	for _, uncut := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			d := &disk{room: -1, uncut: uncut}
			l := start(d, true, quiet())
			if err := l.Write(get("a")); err != nil || l.Refuses() {
				t.Fatal(err)
			}
			d.set(0)
			if err := l.Write(get("b")); !errors.Is(err, ErrNotWritten) || !l.Refuses() {
				t.Fatalf("%v, refuses = %v, want %v", err, l.Refuses(), ErrNotWritten)
			}
			begun := time.Now()
			if err := l.Write(get("c")); !errors.Is(err, ErrNotWritten) || time.Since(begun) > 0 {
				t.Errorf("%v after %v, want %v at once", err, time.Since(begun), ErrNotWritten)
			}
			time.Sleep(10 * time.Second)
			if !l.Refuses() {
				t.Error("serves again without a write that succeeded")
			}
			d.set(-1)
			time.Sleep(retryPause) // no request is needed for that
			synctest.Wait()
			if l.Refuses() || l.State().Problem != nil {
				t.Errorf("%v although the disk has room again", l.State().Problem)
			}
			if err := l.Write(get("d")); err != nil {
				t.Error(err)
			}
			l.Close()
			d.want(t, "a", "gap lost 2 late 0", "d")
		})
	}
}

// What is torn must not stay in the file, and what was refused must not be in it.
func TestLog_RequiredTakesBackWhatIsTorn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: 150}
		l := start(d, true, quiet())
		unhang := d.hang() // so that the lines are one batch
		_ = l.enqueue([]byte("{}\n"), maxQueue)
		synctest.Wait()
		var writers sync.WaitGroup
		for range 3 {
			writers.Go(func() {
				if err := l.Write(get("x")); !errors.Is(err, ErrNotWritten) {
					t.Errorf("%v, want %v", err, ErrNotWritten)
				}
			})
		}
		synctest.Wait()
		unhang()
		writers.Wait()
		d.set(-1)
		time.Sleep(2 * retryPause)
		l.Close()
		d.want(t, "", "gap lost 3 late 0")
	})
}

func TestLog_RequiredRefusesWhileAWriteHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := start(d, true, quiet())
		unhang := d.hang()
		var writers sync.WaitGroup
		refused := func(name string, within time.Duration) {
			writers.Go(func() {
				begun := time.Now()
				if err := l.Write(get(name)); !errors.Is(err, ErrNotWritten) || time.Since(begun) != within {
					t.Errorf("%s: %v after %v, want %v after %v", name, err, time.Since(begun), ErrNotWritten, within)
				}
				if !l.Refuses() { // the next request may come at once
					t.Errorf("%s is refused, and the next would not be", name)
				}
			})
			synctest.Wait()
		}
		refused("a", writeBound)
		time.Sleep(writeBound / 2)
		refused("b", writeBound/2) // queued behind a
		time.Sleep(writeBound / 2)
		synctest.Wait()
		refused("c", 0)
		writers.Wait()
		if s := l.State(); !errors.Is(s.Problem, errSlow) || !l.Refuses() {
			t.Errorf("%+v", s)
		}
		unhang()
		synctest.Wait()
		if l.Refuses() {
			t.Error("refuses although the write has returned")
		}
		if err := l.Write(get("d")); err != nil {
			t.Error(err)
		}
		l.Close()
		// The write of a went through after its response had been replaced, and the log says so.
		d.want(t, "a", "gap lost 2 late 1", "d")
	})
}

func TestLog_CloseDoesNotWaitForAWriteThatHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{room: -1}
		l := start(d, false, quiet())
		unhang := d.hang()
		_ = l.Write(get("a"))
		time.Sleep(time.Second)
		begun := time.Now()
		l.Close()
		if took := time.Since(begun); took != closeBound {
			t.Errorf("Close took %v", took)
		}
		unhang()
	})
}

func TestLog_NilRecordsNothing(t *testing.T) {
	var l *Log
	if err := l.Write(get("a")); err != nil || l.Refuses() || l.State() != (State{}) {
		t.Errorf("%v, %+v", err, l.State())
	}
	l.Reopen()
	l.Close()
	if got := testing.AllocsPerRun(100, func() { _ = l.Write(&Line{}) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkWrite(b *testing.B) {
	out, err := openFile(filepath.Join(b.TempDir(), "audit.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	l := start(out, false, quiet())
	defer l.Close()
	line := usual()
	b.ReportAllocs()
	for b.Loop() {
		_ = l.Write(&line)
	}
}

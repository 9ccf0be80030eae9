//go:build linux

// Package terminaltest is a terminal for tests, with its screen and its keyboard.
package terminaltest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// timeout bounds waits for events that take milliseconds on an idle machine.
const timeout = time.Minute

// Terminal is a pseudo-terminal. The tested program uses Device. The test types and reads at the other end.
type Terminal struct {
	Device *os.File
	master *os.File

	mu     sync.Mutex // guards screen
	screen strings.Builder
}

// Open returns a new terminal, which is closed at the end of the test.
func Open(t testing.TB) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	device, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	terminal := &Terminal{Device: device, master: master}
	t.Cleanup(func() {
		_ = device.Close()
		_ = master.Close()
	})
	go func() { _, _ = io.Copy(recorder{terminal}, master) }()
	return terminal
}

// recorder records the output of a terminal.
type recorder struct{ of *Terminal }

func (r recorder) Write(text []byte) (int, error) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	return r.of.screen.Write(text)
}

// Resize sets the size of the terminal.
func (k *Terminal) Resize(t testing.TB, rows, columns uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(k.master.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
}

// Shows reports whether a text is in the output so far.
func (k *Terminal) Shows(text string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Contains(k.screen.String(), text)
}

// Text returns the output so far, with \n as line ends.
func (k *Terminal) Text() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.ReplaceAll(k.screen.String(), "\r\n", "\n")
}

// Await waits until the terminal shows a text. After a minute, the test fails.
func (k *Terminal) Await(t testing.TB, text string) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !k.Shows(text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v, the terminal does not show %q:\n%s", timeout, text, k.Text())
		}
	}
}

// Type types keys once the terminal shows a text.
func (k *Terminal) Type(t testing.TB, text, keys string) {
	t.Helper()
	k.Await(t, text)
	if _, err := k.master.WriteString(keys); err != nil {
		t.Error(err)
	}
}

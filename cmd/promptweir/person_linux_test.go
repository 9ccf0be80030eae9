package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"github.com/promptweir/promptweir/upstream/wire"
)

// keyboard is the other side of a terminal: what is typed there, and what it shows.
type keyboard struct {
	master *os.File

	mu    sync.Mutex // guards shown
	shown strings.Builder
}

// openTerminal returns a person at a new terminal, and the keyboard.
func openTerminal(t *testing.T) (*person, *keyboard) {
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
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	k := &keyboard{master: master}
	t.Cleanup(func() {
		_ = slave.Close()
		_ = master.Close()
	})
	go func() { _, _ = io.Copy(k, master) }()
	return personAt(slave, slave), k
}

// Write records what the terminal shows.
func (k *keyboard) Write(text []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown.Write(text)
}

func (k *keyboard) shows(text string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Contains(k.shown.String(), text)
}

// typeAt types keys once the terminal shows a text.
func (k *keyboard) typeAt(t *testing.T, text, keys string) {
	t.Helper()
	eventually(t, "the terminal shows "+text, func() bool { return k.shows(text) })
	if _, err := k.master.WriteString(keys); err != nil {
		t.Error(err)
	}
}

func TestPerson_GivesNoAnswerOrInterrupts(t *testing.T) {
	for keys, want := range map[string]error{"\x04": errNoAnswer, "\x03": errInterrupted, "ab\x03": errInterrupted} {
		p, k := openTerminal(t)
		asked := make(chan error, 1)
		go func() {
			_, err := p.ask(t.Context(), "Well?", nil)
			asked <- err
		}()
		k.typeAt(t, "Well? ", keys)
		if err := <-asked; !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", keys, err, want)
		}
	}
}

func TestPerson_DeclinesAnElicitation(t *testing.T) {
	p, k := openTerminal(t)
	replied := make(chan string, 1)
	go func() {
		reply, err := p.elicit(t.Context(), wire.Elicit, jsontext.Value(`{"message":"Who\u001b[31m?","requestedSchema":`+form+`}`))
		replied <- fmt.Sprint(string(reply), err)
	}()
	k.typeAt(t, "Your name: ", "\x04")
	if got, want := <-replied, `{"action":"decline"}<nil>`; got != want {
		t.Errorf("reply %s, want %s", got, want)
	}
	if k.shows("\x1b[31m") {
		t.Error("the server's message acts on the terminal")
	}
}

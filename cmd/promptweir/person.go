package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

var (
	// errInterrupted ends a command whose user pressed Ctrl-C at a question.
	errInterrupted = errors.New("interrupted")
	// errNoAnswer is the answer of a user who pressed Ctrl-D.
	errNoAnswer = errors.New("no answer")
)

// person is the user of a command, who can be asked at the terminal. The nil one is nobody: standard input is a pipe, a file or
// closed. Questions are asked one at a time, at the terminal itself, so that both outputs of the command can be redirected.
type person struct {
	mu       sync.Mutex // guards the rest
	input    *os.File
	output   *os.File
	keys     *keys
	terminal *term.Terminal // which keeps what is typed ahead
}

// newPerson returns the user at standard input, or nil if that is no terminal.
func newPerson(in io.Reader) *person {
	input, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(input.Fd())) {
		return nil
	}
	output, err := os.OpenFile(terminalPath, os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	return personAt(input, output)
}

// personAt returns the user who types at a terminal, and reads there.
func personAt(input, output *os.File) *person {
	p := &person{input: input, output: output, keys: &keys{Reader: input}}
	p.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{p.keys, output}, "")
	return p
}

// keys notices Ctrl-C, which a terminal.ReadLine does not tell from Ctrl-D.
type keys struct {
	io.Reader

	interrupted bool
}

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	const ctrlC = 3
	n, err := k.Reader.Read(p)
	k.interrupted = k.interrupted || bytes.IndexByte(p[:n], ctrlC) >= 0
	return n, err
}

// tell prints a line at the terminal, of which nothing acts on it.
func (p *person) tell(text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(p.output, shownLine(oneLine(text, maxReport)))
	return err
}

// ask prints a question and returns the line that the user types. Tab completes it by a function, which may be nil. The error is
// errInterrupted, errNoAnswer or that of ctx.
func (p *person) ask(ctx context.Context, question string, complete func(start string) []string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, err := term.MakeRaw(int(p.input.Fd())) // or Tab would not arrive
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(p.input.Fd()), before) }()
	p.terminal.SetPrompt(shownLine(question) + " ")
	p.terminal.AutoCompleteCallback = p.completer(complete)
	type answer struct {
		line string
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // it goes on if ctx ends, and the process with it
		line, err := p.terminal.ReadLine()
		answered <- answer{line, err}
	}()
	select {
	case a := <-answered:
		switch {
		case errors.Is(a.err, io.EOF) && p.keys.interrupted:
			return "", errInterrupted
		case errors.Is(a.err, io.EOF):
			fmt.Fprint(p.output, "\r\n")
			return "", errNoAnswer
		}
		return a.line, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// completer returns what the terminal calls for each key. Tab completes what is before the cursor as far as all values agree, and
// prints them if there are several.
func (p *person) completer(complete func(start string) []string) func(line string, at int, key rune) (string, int, bool) {
	if complete == nil {
		return nil
	}
	return func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		values := complete(line[:at])
		if len(values) == 0 {
			return line, at, true
		}
		completed := values[0]
		shown := make([]string, 0, len(values))
		for _, value := range values {
			completed = completed[:commonPrefix(completed, value)]
			shown = append(shown, shownLine(value))
		}
		if len(values) > 1 {
			_, _ = p.terminal.Write([]byte(oneLine(strings.Join(shown, " "), maxReport) + "\r\n")) // as with the question, the user sees whether it arrived
		}
		if len(completed) < at {
			completed = line[:at] // the values begin otherwise, in another case for example
		}
		return completed + line[at:], len(completed), true
	}
}

// commonPrefix returns how many bytes of whole characters are the same at the start of both.
func commonPrefix(a, b string) int {
	for i, r := range a {
		if !strings.HasPrefix(b[min(i, len(b)):], string(r)) {
			return i
		}
	}
	return len(a)
}

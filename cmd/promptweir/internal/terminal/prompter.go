package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"
)

var (
	// ErrInterrupted ends a command whose user pressed Ctrl-C at a question.
	ErrInterrupted = errors.New("interrupted")
	// ErrNoAnswer is the answer of a user who pressed Ctrl-D.
	ErrNoAnswer = errors.New("no answer")
)

// Prompter asks the user of a command at the terminal, one question at a time: at the terminal
// itself, so that both outputs of the command can be redirected.
type Prompter struct {
	mu       sync.Mutex // guards the rest
	input    *os.File
	output   *os.File
	keys     *keys
	terminal *term.Terminal // which keeps what is typed ahead
}

// NewPrompter returns a prompter that reads the answers from standard input, or nil if that is no
// terminal: nobody would answer from a pipe or a file.
func NewPrompter(in io.Reader) *Prompter {
	input, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(input.Fd())) {
		return nil
	}
	path := "/dev/tty"
	if runtime.GOOS == "windows" {
		path = "CONOUT$"
	}
	output, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	return newPrompterAt(input, output)
}

func newPrompterAt(input, output *os.File) *Prompter {
	p := &Prompter{input: input, output: output, keys: &keys{from: input}}
	p.terminal = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{p.keys, output}, "")
	return p
}

// keys notices Ctrl-C, which a terminal.ReadLine does not tell from Ctrl-D.
type keys struct {
	from        io.Reader
	interrupted bool
}

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	const ctrlC = 3
	n, err := k.from.Read(p)
	k.interrupted = k.interrupted || bytes.IndexByte(p[:n], ctrlC) >= 0
	return n, err
}

// Tell prints a text at the terminal, of which nothing acts on it.
func (p *Prompter) Tell(text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(Printable(p.output), text)
	return err
}

// Ask prints a question and returns the line that the user types. Tab completes it by a function,
// which may be nil. The error is [ErrInterrupted], [ErrNoAnswer] or the cause of the end of ctx.
func (p *Prompter) Ask(ctx context.Context, question string, complete func(start string) []string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, err := term.MakeRaw(int(p.input.Fd())) // or Tab would not arrive
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(p.input.Fd()), before) }()
	p.terminal.SetPrompt(Line(question) + " ")
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
		if !errors.Is(a.err, io.EOF) {
			return a.line, a.err
		}
		fmt.Fprint(p.output, "\r\n")
		if p.keys.interrupted {
			return "", ErrInterrupted
		}
		return "", ErrNoAnswer
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Confirm asks a question, and reports whether the answer is yes. Without an answer it is no.
func (p *Prompter) Confirm(ctx context.Context, question string) (bool, error) {
	answer, err := p.Ask(ctx, question+" [y/N]", nil)
	if err != nil && !errors.Is(err, ErrNoAnswer) {
		return false, err
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// completer returns what the terminal calls for each key. Tab completes what is before the cursor
// as far as all values agree, and prints them if there are several.
func (p *Prompter) completer(
	complete func(start string) []string,
) func(line string, at int, key rune) (string, int, bool) {
	if complete == nil {
		return nil
	}
	return func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		// What is returned is written to the terminal as it is: a server's value could act on it.
		isHidden := func(value string) bool { return !Showable(value) }
		values := slices.DeleteFunc(slices.Clone(complete(line[:at])), isHidden)
		if len(values) == 0 {
			return line, at, true
		}
		completed := values[0]
		for _, value := range values {
			completed = completed[:commonPrefix(completed, value)]
		}
		if len(values) > 1 { // an error is ignored: as with the question, the user sees whether it arrived
			_, _ = p.terminal.Write([]byte(OneLine(strings.Join(values, " ")) + "\r\n"))
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

package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Prompter asks the user of a command at the terminal, one question at a time: at the terminal
// itself, so that both outputs of the command can be redirected.
type Prompter struct {
	mu     sync.Mutex // guards the rest
	input  *bufio.Reader
	output *os.File
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
	return &Prompter{input: bufio.NewReader(input), output: output}
}

// Tell prints a text at the terminal, of which nothing acts on it.
func (p *Prompter) Tell(text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(Printable(p.output), text)
	return err
}

// Choose prints a question and returns the line that the user types, empty after Ctrl-D. The error
// may be the cause of the end of ctx, as after Ctrl-C, which is a signal to the command.
func (p *Prompter) Choose(ctx context.Context, question string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprint(Printable(p.output), Line(question)+" "); err != nil {
		return "", err
	}
	type answer struct {
		line string
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // it goes on if ctx ends, and the process with it
		line, err := p.input.ReadString('\n')
		answered <- answer{line, err}
	}()
	select {
	case a := <-answered:
		if errors.Is(a.err, io.EOF) {
			_, a.err = fmt.Fprintln(p.output)
		}
		return strings.TrimSpace(a.line), a.err
	case <-ctx.Done():
		_, _ = fmt.Fprintln(p.output) // what follows has a line of its own
		return "", context.Cause(ctx)
	}
}

// Confirm asks a question, and reports whether the answer is yes.
func (p *Prompter) Confirm(ctx context.Context, question string) (bool, error) {
	answer, err := p.Choose(ctx, question+" [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

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

	"golang.org/x/term"
)

// Prompter asks the user of a command, one question at a time. It prints to the terminal itself, so the
// command's output can be redirected.
type Prompter struct {
	input  *bufio.Reader
	output *os.File
}

// NewPrompter returns a prompter that reads answers from in, or nil if in is not a terminal: a pipe or a file
// contains no answers.
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

// Tell prints text at the terminal, made [Printable].
func (p *Prompter) Tell(text string) error {
	_, err := fmt.Fprintln(Printable(p.output), text)
	return err
}

// Choose prints a question and returns the typed line, or "" after Ctrl-D. If ctx ends, for example after
// Ctrl-C, it returns the cause of ctx.
func (p *Prompter) Choose(ctx context.Context, question string) (string, error) {
	if _, err := fmt.Fprint(Printable(p.output), Line(question)+" "); err != nil {
		return "", err
	}
	type answer struct {
		line string
		err  error
	}
	answered := make(chan answer, 1)
	go func() { // the read cannot be interrupted, so it may last until the process ends
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
		_, _ = fmt.Fprintln(p.output) // ends the line of the question
		return "", context.Cause(ctx)
	}
}

// Confirm asks a question, and reports whether the answer is y or yes.
func (p *Prompter) Confirm(ctx context.Context, question string) (bool, error) {
	answer, err := p.Choose(ctx, question+" [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

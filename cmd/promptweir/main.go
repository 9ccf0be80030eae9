package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // also if a command found something, such as a difference with --exit-code
	exitUsage  = 2
	exitSignal = 128 // plus the number of the signal that ended a command before it was done
)

func main() {
	if err := hideMemory(); err != nil { // before any child process is started
		fmt.Fprintln(os.Stderr, "promptweir:", err)
		os.Exit(exitFailed)
	}
	os.Exit(run(untilSignal(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// signalError is the cause with which a signal ends the process's context.
type signalError struct{ os.Signal }

func (e *signalError) Error() string {
	if e.Signal == os.Interrupt {
		return "interrupted"
	}
	return e.String()
}

// exitCode is what shells report for a process that the signal ends.
func (e *signalError) exitCode() int {
	if e.Signal == os.Interrupt {
		return exitSignal + int(syscall.SIGINT)
	}
	return exitSignal + int(syscall.SIGTERM)
}

// untilSignal returns a context that ends at SIGINT or SIGTERM. A second one of them ends the process at once.
func untilSignal() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		end(&signalError{<-signals})
		signal.Stop(signals)
	}()
	return ctx
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	std = std.printable()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	usage, wrongUsage := errors.AsType[*usageError](err)
	by, stopped := errors.AsType[*signalError](context.Cause(ctx))
	switch {
	case err == nil:
		return exitDone
	case stopped && !wrongUsage:
		fmt.Fprintf(std.err, "promptweir: %s\n", by)
		return by.exitCode()
	case wrongUsage:
		path := strings.Fields(strings.TrimSuffix(command.CommandPath(), " help"))
		fmt.Fprintf(std.err, "promptweir: %s\nSee '%s'.\n", usage.problem, strings.Join(slices.Insert(path, 1, "help"), " "))
		return exitUsage
	case errors.Is(err, terminal.ErrInterrupted):
		fmt.Fprintf(std.err, "promptweir: %v\n", err)
		return exitSignal + int(syscall.SIGINT)
	case !errors.Is(err, errReported):
		fmt.Fprintf(std.err, "promptweir: %v\n", err)
	}
	return exitFailed
}

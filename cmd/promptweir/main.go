package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // also if a command found something, such as a difference with --exit-code
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	usage, wrongUsage := errors.AsType[*usageError](err)
	switch {
	case err == nil:
		return exitDone
	case wrongUsage:
		fmt.Fprintf(std.err, "promptweir: %s\nSee 'promptweir help'.\n", usage.problem)
		return exitUsage
	case !errors.Is(err, errReported):
		fmt.Fprintf(std.err, "promptweir: %v\n", err)
	}
	return exitFailed
}

// Command together runs several commands side by side in the foreground. It stops all of them on SIGINT or SIGTERM, or as
// soon as one of them ends. make run-teams starts an example with it.
//
//	together bin/handbook + bin/promptweir serve --config examples/teams
//
// It exits when all of them have ended, with 0 after a signal and with 1 otherwise.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// errEnded is the error of a command that ended successfully: it should have kept running.
var errEnded = errors.New("exit status 0")

// grace bounds how long a command may take to end after SIGINT before it is killed.
const grace = 15 * time.Second

func main() {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	commands := split(os.Args[1:])
	if len(commands) == 0 {
		logger.Error("usage: together COMMAND [ARG…] [+ COMMAND [ARG…]]…")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, commands)
	stop()
	if err != nil {
		logger.Error("run together", "error", err)
		os.Exit(1)
	}
}

// split cuts the arguments into commands at each "+".
func split(args []string) [][]string {
	var commands [][]string
	begin := 0
	for i := 0; i <= len(args); i++ {
		if i < len(args) && args[i] != "+" {
			continue
		}
		if begin < i {
			commands = append(commands, args[begin:i])
		}
		begin = i + 1
	}
	return commands
}

// run runs the commands until ctx or the first of them ends, and waits for all of them.
func run(ctx context.Context, commands [][]string) error {
	together, running := errgroup.WithContext(ctx)
	for _, args := range commands {
		together.Go(func() error {
			cmd := exec.CommandContext(running, args[0], args[1:]...)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // after SIGTERM, a gateway waits for load balancers
			cmd.WaitDelay = grace
			err := cmd.Run()
			if running.Err() == nil { // it was not stopped
				return fmt.Errorf("%s ended by itself: %w", strings.Join(args, " "), cmp.Or(err, errEnded))
			}
			return nil
		})
	}
	return together.Wait()
}

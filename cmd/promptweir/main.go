// Command promptweir answers: how is the gateway run and asked from a shell?
//
// It wires config, upstream and gateway together; see promptweir help. What it promises is its exit code: 0 done, 1 it
// failed or found something, 2 wrong usage.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

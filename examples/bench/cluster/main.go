//go:build unix

// Command cluster runs three gateways with one store behind HAProxy, which sends each request to the next one, and checks what the
// gateways promise together:
//
//		clients ──▶ HAProxy, round robin ──▶ gateway ──▶ servers
//		                                 └─▶ gateway ──▶   ""
//		                                 └─▶ gateway ──▶   ""
//		                                        └──▶ store: valkey-server or redis-server
//
//	  - All pages of a list come together, whichever replica has each.
//	  - A limit of 100 requests a second is one of 100 over all replicas, within 5 %, and one of concurrency holds as well.
//	  - A session that one replica ends has ended at all of them.
//	  - Replies, repeated gets, cancellations and posts of HTTP+SSE find their request, whichever replica they reach.
//	  - Clients of both eras that follow changes list each of them, and go on with an event id at another replica.
//	  - A server has one standing connection, and is listed once for each change, however many replicas there are. Another one takes the
//	    place of one that stops, and nobody goes back to an earlier list.
//	  - While the store is killed or hangs, no get fails or waits, and limits hold at each replica; when it is back they hold over all. They do
//	    all the time when it is slow, late now and then, or emptied.
//	  - Replicas that are restarted, or change their configuration, one after another lose no request, and end no stream without its
//	    closing result. No list crosses from one configuration to the other.
//	  - When replicas are killed, only what they were doing is lost: no list, no change, no limit.
//
// Each check is a row of a table in Markdown. The exit code is 1 if a promise was not kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	bin   string
	only  *regexp.Regexp
	short bool
	busy  bool
}

// length returns how long something is watched.
func (s *settings) length(usual time.Duration) time.Duration {
	if s.short {
		return min(usual/4, 3*time.Second)
	}
	return usual
}

// check is one promise: run says in a sentence what was seen, or returns an error.
type check struct {
	name string
	run  func(ctx context.Context, w *world, s *settings) (seen string, err error)
}

func checks() []check {
	return []check{
		{"pages", checkPages},
		{"rate", checkRate},
		{"concurrency", checkConcurrency},
		{"end of sessions", checkDelete},
		{"replies, legacy", checkLegacyReplies},
		{"replies, modern", checkModernReplies},
		{"posts of HTTP+SSE", checkPosts},
		{"cancellation", checkCancel},
		{"streams", checkStreams},
		{"streams resumed", checkResume},
		{"one watcher", checkOneWatcher},
		{"watcher is stopped", checkStoppedWatcher},
		{"store is killed", checkKilledStore},
		{"store hangs", checkHungStore},
		{"store is slow", checkSlowStore},
		{"store is late", checkLateStore},
		{"store stutters", checkStutteringStore},
		{"store is emptied", checkEmptiedStore},
		{"cost of limits", checkCost},
		{"rolling restart", checkRollingRestart},
		{"rolling change", checkRollingChange},
		{"replicas are killed", checkKilledReplicas},
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &settings{}
	flag.StringVar(&s.bin, "bin", "bin", "`directory` of the program promptweir")
	only := flag.String("only", "", "run only the checks whose name matches this regular `expression`")
	flag.BoolVar(&s.short, "short", false, "watch for a quarter of the time")
	flag.BoolVar(&s.busy, "busy", false, "do not check how long anything takes, because the machine is busy with other work")
	flag.Parse()
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	w, err := newWorld(ctx, s, design{replicas: replicas})
	defer w.close()
	if err != nil {
		return err
	}
	fmt.Print("| check | took | seen |\n| --- | --- | --- |\n")
	var broken []error
	for _, c := range checks() {
		if !s.only.MatchString(c.name) || ctx.Err() != nil {
			continue
		}
		if err := w.awaitStore(); err != nil { // which a check before this one may have kept from answering in time
			return err
		}
		began := time.Now()
		seen, err := c.run(ctx, w, s)
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", c.name, err))
			seen = fmt.Sprintf("**not kept: %s** %s", strings.ReplaceAll(err.Error(), "\n", "; "), seen)
			w.writeLogs()
		}
		fmt.Printf("| %s | %.0f s | %s |\n", c.name, time.Since(began).Seconds(), seen)
	}
	return errors.Join(broken...)
}

// Command handbook is a small MCP server over Streamable HTTP whose list of prompts changes while it runs, to show that
// clients and gateways keep up with it. examples/two-teams puts it behind the gateway.
//
// Two prompts are always there. A third, incident_of_the_day, appears, changes its description and
// disappears again, one step per -change-every.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"
)

// drain bounds how long requests in flight may take after the server was told to stop.
const drain = 3 * time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:9090", "loopback `address` to serve on; port 0 picks a free one")
	every := flag.Duration("change-every", 30*time.Second, "time between two changes of the prompt list; 0 for no change")
	flag.Parse()

	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, logger, *listen, *every)
	stop()
	if err != nil {
		logger.Error("serve the handbook", "error", err)
		os.Exit(1)
	}
}

// run serves the handbook on the address until ctx ends.
func run(ctx context.Context, logger *slog.Logger, listen string, every time.Duration) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if addr, ok := listener.Addr().(*net.TCPAddr); !ok || !addr.IP.IsLoopback() {
		return errors.Join(fmt.Errorf("%s is not a loopback address: this example has no authentication", listen), listener.Close())
	}
	prompts := newServer()
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler(prompts))
	server := &http.Server{
		Handler:           http.NewCrossOriginProtection().Handler(mux),
		ReadHeaderTimeout: 5 * time.Second,
		// Requests end with ctx: a stream of notifications would otherwise never end by itself.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	logger.InfoContext(ctx, "listening", "endpoint", "http://"+listener.Addr().String()+"/mcp")

	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	running.Go(func() error {
		<-ctx.Done()
		return shutdown(ctx, server)
	})
	running.Go(func() error {
		keepChanging(ctx, logger, prompts, every)
		return nil
	})
	return running.Wait()
}

// shutdown lets the requests in flight end within the bound, although ctx has ended, and then cuts
// them off.
func shutdown(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("shut down: %w", err), server.Close())
	}
	return nil
}

// handler serves both eras of the protocol on one URL. A handler of the Go SDK serves one of them in
// full: the stateful one has sessions, which clients up to 2025-11-25 need to be notified, and refuses
// later revisions; the stateless one serves those and has no sessions. The version header tells them
// apart, and both handlers share one server, hence one list of prompts.
func handler(prompts *mcp.Server) http.Handler {
	server := func(*http.Request) *mcp.Server { return prompts }
	sessions := mcp.NewStreamableHTTPHandler(server, nil)
	stateless := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{Stateless: true})
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Mcp-Protocol-Version") >= "2026-07-28" { // revisions are dates: they sort as strings
			stateless.ServeHTTP(w, req)
			return
		}
		sessions.ServeHTTP(w, req)
	})
}

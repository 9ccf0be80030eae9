// Command bare is the baseline of the fan-out benchmark: the least server on net/http that holds event streams. A POST to /change
// sends a notification on each.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx); err != nil {
		slog.Error("bare", slog.Any("error", err))
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := hub{streams: map[chan struct{}]struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", h.stream)
	mux.HandleFunc("/change", h.change)
	mux.Handle("/metrics", promhttp.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	slog.InfoContext(ctx, "listening", slog.String("endpoint", fmt.Sprintf("http://%s/mcp", listener.Addr())),
		slog.String("admin", fmt.Sprintf("http://%s", listener.Addr())))
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// hub holds the open streams.
type hub struct {
	mu      sync.Mutex // guards streams
	streams map[chan struct{}]struct{}
}

// change sends a notification on all streams.
func (h *hub) change(http.ResponseWriter, *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for wake := range h.streams {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

func (h *hub) stream(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || bytes.Contains(body, []byte(`"initialize"`)) {
		return // a legacy client: the stream comes with its next request
	}
	wake := make(chan struct{}, 1)
	h.mu.Lock()
	h.streams[wake] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.streams, wake)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	for http.NewResponseController(w).Flush() == nil {
		select {
		case <-wake:
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n") // an error recurs in Flush
		case <-r.Context().Done():
			return
		}
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// reference is a program that the gateway is compared with, or the server behind it, in a process of its own.
func reference(ctx context.Context, args []string) error {
	programs := map[string]func(ctx context.Context, args []string) (http.Handler, error){
		"upstream": upstreamServer,
		"proxy":    reverseProxy,
		"page":     pageHandler,
		"sdk":      sdkGateway,
		"sink":     func(context.Context, []string) (http.Handler, error) { return &sink{}, nil },
	}
	program, ok := programs[args[0]]
	if !ok {
		return errors.New("usage: measure speed | pairs | recording | memory | fanout, each with -h")
	}
	handler, err := program(ctx, args[1:])
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	slog.InfoContext(ctx, "listening", slog.String("endpoint", fmt.Sprintf("http://%s/mcp", listener.Addr())))
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func upstreamServer(_ context.Context, args []string) (http.Handler, error) {
	flags := flag.NewFlagSet("upstream", flag.ContinueOnError)
	prompts := flags.Int("prompts", 10, "number of prompts in the list")
	size := flags.Int("size", 300, "size of a prompt's text in bytes")
	delay := flags.Duration("delay", 0, "delay before the response to a get")
	legacy := flags.Bool("legacy", false, "speak 2025-11-25 and no later revision")
	sse := flags.Bool("sse", false, "answer gets with an event stream")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	s := rig.NewServer(*legacy, *size, rig.Prompts(*prompts)...)
	s.Delay, s.SSE = *delay, *sse
	return s, nil
}

// reverseProxy is a tuned one: it keeps a connection for each concurrent request, and pools its copy buffers.
func reverseProxy(_ context.Context, args []string) (http.Handler, error) {
	target, err := url.Parse(strings.Join(args, ""))
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host },
		Transport: &http.Transport{
			MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute, DisableCompression: true,
		},
		BufferPool: &pool{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}},
	}, nil
}

type pool struct{ buffers sync.Pool }

// Get implements [httputil.BufferPool].
func (p *pool) Get() []byte {
	b, _ := p.buffers.Get().(*[]byte)
	return *b
}

// Put implements [httputil.BufferPool].
func (p *pool) Put(b []byte) { p.buffers.Put(&b) }

// pageHandler reads each request to its end and writes the bytes of a file from a pooled buffer.
func pageHandler(_ context.Context, args []string) (http.Handler, error) {
	page, err := os.ReadFile(strings.Join(args, ""))
	if err != nil {
		return nil, err
	}
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer, _ := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(buffer)
		buffer.Reset()
		if _, err := io.Copy(buffer, r.Body); err != nil {
			return
		}
		buffer.Reset()
		buffer.Write(page)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(buffer.Len()))
		_, _ = w.Write(buffer.Bytes()) // fails only if the client has gone
	}), nil
}

// sdkGateway is a gateway in as few lines as the official SDK allows: a client session to the upstream, and a server that offers the
// upstream's prompts and forwards each get.
func sdkGateway(ctx context.Context, args []string) (http.Handler, error) {
	implementation := &mcp.Implementation{Name: "sdk", Version: "1"}
	session, err := mcp.NewClient(implementation, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: strings.Join(args, ""), HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}},
	}, nil)
	if err != nil {
		return nil, err
	}
	server := mcp.NewServer(implementation, nil)
	for prompt, err := range session.Prompts(ctx, nil) {
		if err != nil {
			return nil, err
		}
		server.AddPrompt(prompt, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return session.GetPrompt(ctx, &mcp.GetPromptParams{Name: r.Params.Name, Arguments: r.Params.Arguments})
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true}), nil
}

// sink receives what is exported over OTLP with http/protobuf, and keeps nothing of it. A GET says how many exports of each signal came.
type sink struct{ traces, metrics, logs atomic.Int64 }

// ServeHTTP implements [http.Handler].
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_, _ = fmt.Fprintf(w, "%d %d %d\n", s.traces.Load(), s.metrics.Load(), s.logs.Load()) // fails only if the client has gone
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // as above
	signals := map[string]*atomic.Int64{"/v1/traces": &s.traces, "/v1/metrics": &s.metrics, "/v1/logs": &s.logs}
	if signal := signals[r.URL.Path]; signal != nil {
		signal.Add(1)
	}
}

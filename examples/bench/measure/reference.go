package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// references are the programs that the gateway is compared with, and the server behind it, each in a
// process of its own.
func references() map[string]func(ctx context.Context, args []string) error {
	programs := map[string]func(ctx context.Context, args []string) error{}
	for name, program := range map[string]func(ctx context.Context, args []string) (http.Handler, error){
		"upstream": upstreamServer,
		"proxy":    reverseProxy,
		"page":     pageHandler,
		"sdk":      sdkGateway,
	} {
		programs[name] = func(ctx context.Context, args []string) error {
			handler, err := program(ctx, args)
			if err != nil {
				return err
			}
			return rig.Announce(ctx, rig.AnyAddress, &http.Server{Handler: handler}) //nolint:gosec // Announce sets timeouts
		}
	}
	return programs
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

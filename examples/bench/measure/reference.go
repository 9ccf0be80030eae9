package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// references are the programs that the gateway is compared with, and the server behind it, each in a
// process of its own, with one argument.
func references() map[string]func(ctx context.Context, args []string) error {
	programs := map[string]func(ctx context.Context, args []string) error{}
	for name, program := range map[string]func(ctx context.Context, arg string) (http.Handler, error){
		"upstream": upstreamServer, "proxy": reverseProxy, "sdk": sdkGateway,
	} {
		programs[name] = func(ctx context.Context, args []string) error {
			handler, err := program(ctx, args[0])
			if err != nil {
				return err
			}
			return rig.Announce(ctx, handler)
		}
	}
	return programs
}

// server is how the server behind the gateway offers its prompts.
type server struct {
	// Prompts and Size are how many there are, and the bytes of a text; 0 means 10 and 300.
	Prompts, Size int
	Delay         time.Duration
	Legacy, SSE   bool
}

// start starts the server, and returns it with the body of the upstream block.
func (s server) start(st *rig.Stage) (p *rig.Process, block string) {
	p = st.Self("upstream", string(rig.Must(json.Marshal(s))))
	return p, fmt.Sprintf("url = %q", p.Endpoint)
}

func upstreamServer(_ context.Context, spec string) (http.Handler, error) {
	var of server
	if err := json.Unmarshal([]byte(spec), &of); err != nil {
		return nil, err
	}
	s := upstreamtest.NewLoadPeer(of.Legacy, cmp.Or(of.Size, 300), upstreamtest.Prompts(cmp.Or(of.Prompts, 10))...)
	s.Delay, s.SSE = of.Delay, of.SSE
	return s, nil
}

// reverseProxy is a tuned one: it keeps a connection for each concurrent request, and pools its copy buffers.
func reverseProxy(_ context.Context, endpoint string) (http.Handler, error) {
	target, err := url.Parse(endpoint)
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

// sdkGateway is a gateway in as few lines as the official SDK allows: a client session to the upstream, and a server that offers the
// upstream's prompts and forwards each get.
func sdkGateway(ctx context.Context, endpoint string) (http.Handler, error) {
	implementation := &mcp.Implementation{Name: "sdk", Version: "1"}
	session, err := mcp.NewClient(implementation, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}},
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
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true}), nil
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// references are the programs that the gateway is compared with, and the servers behind it, each in a
// process of its own.
func references() map[string]func(ctx context.Context, args []string) error {
	programs := map[string]func(ctx context.Context, args []string) error{}
	for name, program := range map[string]func(ctx context.Context, args []string) (http.Handler, error){
		"upstream": upstreamServer, "proxy": reverseProxy, "sdk": sdkGateway,
	} {
		programs[name] = func(ctx context.Context, args []string) error {
			handler, err := program(ctx, args)
			if err != nil {
				return err
			}
			return rig.Announce(ctx, handler)
		}
	}
	return programs
}

// server is how a server behind the gateway offers its prompts. It writes each response in one piece, from a pooled buffer: the
// least that net/http can do.
type server struct {
	// Prompts and Size are how many there are, and the bytes of a text; 0 means 10 and 300.
	Prompts, Size int
	Legacy, SSE   bool
}

func (s server) start(st *rig.Stage) *rig.Process {
	return st.Self("upstream", string(rig.Must(json.Marshal(s))))
}

func upstreamServer(_ context.Context, args []string) (http.Handler, error) {
	var of server
	if err := json.Unmarshal([]byte(args[0]), &of); err != nil {
		return nil, err
	}
	s := upstreamtest.NewLoadPeer(of.Legacy, cmp.Or(of.Size, 300), upstreamtest.Prompts(cmp.Or(of.Prompts, 10))...)
	s.SSE = of.SSE
	return s, nil
}

// reverseProxy sends requests to servers in turn. It is a tuned one: it keeps a connection for each concurrent request, and pools
// its copy buffers.
func reverseProxy(_ context.Context, endpoints []string) (http.Handler, error) {
	var targets []*url.URL
	for _, endpoint := range endpoints {
		target, err := url.Parse(endpoint)
		if err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	var turn atomic.Uint32
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			target := targets[int(turn.Add(1))%len(targets)]
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Body = endedBody{r.Out.Body}
		},
		Transport: &http.Transport{
			MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute, DisableCompression: true,
		},
		BufferPool: &pool{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}},
	}, nil
}

// endedBody is the body of a request, which ends where net/http closes it. A server that answers fast does so before the transport has
// looked for the end of the body that it has sent. The transport would then give up the connection in the middle of the response.
type endedBody struct{ io.ReadCloser }

// Read implements [io.Reader].
func (b endedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		err = io.EOF
	}
	return n, err
}

type pool struct{ buffers sync.Pool }

// Get implements [httputil.BufferPool].
func (p *pool) Get() []byte {
	b, _ := p.buffers.Get().(*[]byte)
	return *b
}

// Put implements [httputil.BufferPool].
func (p *pool) Put(b []byte) { p.buffers.Put(&b) }

// sdkGateway is a gateway in as few lines as the official SDK allows: a client session to each server, and a server that offers
// their prompts, named like the gateway's, and forwards each get.
func sdkGateway(ctx context.Context, endpoints []string) (http.Handler, error) {
	implementation := &mcp.Implementation{Name: "sdk", Version: "1"}
	server := mcp.NewServer(implementation, nil)
	for i, endpoint := range endpoints {
		session, err := mcp.NewClient(implementation, nil).Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint: endpoint, HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}},
		}, nil)
		if err != nil {
			return nil, err
		}
		for prompt, err := range session.Prompts(ctx, nil) {
			if err != nil {
				return nil, err
			}
			name := prompt.Name
			prompt.Name = fmt.Sprintf("%c.%s", 'a'+i, name)
			server.AddPrompt(prompt, func(ctx context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: r.Params.Arguments})
			})
		}
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true}), nil
}

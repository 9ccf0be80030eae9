// Command reference has the programs that the benchmarks compare the gateway with, and the upstream behind it:
//
//	reference upstream    an MCP server that answers with constants
//	reference proxy URL   httputil.ReverseProxy
//	reference page FILE   a handler that writes the bytes of a file
//	reference sdk URL     a gateway as one builds it on the official Go SDK
//	reference sink        a collector of telemetry that keeps nothing
//
// With -tls FILE the upstream serves TLS and writes its certificate to the file, and the proxy trusts the certificate in it.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
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
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		slog.Error("reference", slog.Any("error", err))
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: reference upstream | proxy URL | page FILE | sdk URL | sink")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	u, certificate, version := &upstream{}, "", ""
	u.flags(flags)
	flags.StringVar(&certificate, "tls", "", "use TLS: the upstream writes its certificate to this `file`, and the proxy trusts it")
	flags.StringVar(&version, "http", "1.1", "`version` of HTTP that the upstream speaks over TLS, and no other: 1.1 or 2")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "upstream":
		u.prepare()
		if u.stdio {
			return u.serveStdio(os.Stdin, os.Stdout)
		}
		server := newServer(u)
		if certificate != "" {
			if err := secure(server, certificate, version); err != nil {
				return err
			}
		}
		return serve(ctx, server)
	case "proxy":
		target, err := url.Parse(flags.Arg(0))
		if err != nil {
			return err
		}
		trust, err := trusting(certificate)
		if err != nil {
			return err
		}
		return serve(ctx, newServer(proxy(target, trust)))
	case "page":
		page, err := os.ReadFile(flags.Arg(0))
		if err != nil {
			return err
		}
		return serve(ctx, newServer(pageHandler(page)))
	case "sdk":
		handler, err := sdkGateway(ctx, flags.Arg(0))
		if err != nil {
			return err
		}
		return serve(ctx, newServer(handler))
	case "sink":
		return serve(ctx, newServer(&sink{}))
	}
	return fmt.Errorf("unknown program %q: want upstream, proxy, page, sdk or sink", args[0])
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
}

func serve(ctx context.Context, server *http.Server) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	scheme, run := "http", func() error { return server.Serve(listener) }
	if server.TLSConfig != nil {
		scheme, run = "https", func() error { return server.ServeTLS(listener, "", "") }
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	slog.InfoContext(ctx, "listening", slog.String("endpoint", fmt.Sprintf("%s://%s/mcp", scheme, listener.Addr())))
	if err := run(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// proxy returns a tuned reverse proxy: it keeps a connection for each concurrent request, and pools its copy buffers. If the target
// speaks HTTP/2 over TLS, so does the proxy.
func proxy(target *url.URL, trust *tls.Config) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		},
		Transport: &http.Transport{
			MaxIdleConns: 4096, MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute, DisableCompression: true,
			TLSClientConfig: trust, ForceAttemptHTTP2: true,
		},
		BufferPool: &pool{sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}},
	}
}

type pool struct{ sync.Pool }

// Get implements [httputil.BufferPool].
func (p *pool) Get() []byte {
	b, _ := p.Pool.Get().(*[]byte)
	return *b
}

// Put implements [httputil.BufferPool].
func (p *pool) Put(b []byte) { p.Pool.Put(&b) }

// pageHandler reads each request to its end and writes the page from a pooled buffer.
func pageHandler(page []byte) http.Handler {
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
	})
}

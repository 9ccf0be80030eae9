package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// cuttable is a connection of which nothing arrives any more once it is cut, and no side is told.
type cuttable struct {
	net.Conn

	cut *atomic.Bool
}

func (c cuttable) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.cut.Load() {
			return n, err
		}
	}
}

// A proxy answers TCP's keep-alive in place of a peer that has gone. Over HTTP/2, frames ask that peer.
func TestKeepAlive_HTTP2StreamEndsWithSilentPeer(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS() // for its certificate
	defer certified.Close()
	bubble.Test(t, func(t *testing.T) {
		listener, isCut := bubble.NewListener(), new(atomic.Bool)
		server := &http.Server{
			TLSConfig: certified.TLS.Clone(), ReadHeaderTimeout: time.Hour,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}),
		}
		go func() { _ = server.ServeTLS(listener, "", "") }()
		network := newNetwork(1, nil, "", config.AnyHost, nil)
		network.DialContext = func(context.Context, string, string) (net.Conn, error) {
			c, err := listener.Connect()
			return cuttable{c, isCut}, err
		}
		network.TLSClientConfig.InsecureSkipVerify = true
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://peer.example", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := network.RoundTrip(request) //nolint:bodyclose // it is, below
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.ProtoMajor != 2 {
			t.Fatalf("the response came over %s", response.Proto)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, response.Body)
			ended <- err
		}()
		time.Sleep(time.Hour) // a peer that is there is silent for as long as it likes
		select {
		case err := <-ended:
			t.Fatalf("the stream ended while its peer was there: %v", err)
		default:
		}
		isCut.Store(true)
		cut := time.Now()
		if err := <-ended; err == nil || errors.Is(err, io.EOF) {
			t.Errorf("the stream ended with %v", err)
		}
		if took := time.Since(cut); took > 31*time.Second {
			t.Errorf("the stream ended after %v, want 30s", took)
		}
		_ = server.Close()
		network.CloseIdleConnections()
	})
}

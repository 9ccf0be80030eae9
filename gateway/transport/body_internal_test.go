package transport

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/edge"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Bodies are bounded for the address that they come from while they arrive, and until they are done with.
func TestReadBody_BoundsWhatAnAddressHolds(t *testing.T) {
	account := edge.New(edge.Options{})
	s := &snapshot.Snapshot{Generation: &snapshot.Generation{Config: &config.Config{Gateway: config.Gateway{MaxBuffered: "4194304"}}}}
	post := func(address string, body io.Reader) *exchange {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", io.NopCloser(body))
		r.RemoteAddr, r.ContentLength = address, -1
		return &exchange{t: &Transport{ledger: account}, w: httptest.NewRecorder(), r: r, snapshot: s}
	}
	arriving, send := io.Pipe()
	slow, done := post("192.0.2.1:1", arriving), make(chan error)
	go func() {
		_, err := slow.readBody()
		done <- err
	}()
	if _, err := send.Write(make([]byte, 600<<10)); err != nil { // returns when all of it is read
		t.Fatal(err)
	}
	upstreamtest.Equal(t, 1<<20, account.Held(), "bytes of a body of which 600 KiB have arrived")
	for address, want := range map[string]error{"192.0.2.1:2": errNoMemory, "192.0.2.2:2": nil} {
		other := post(address, bytes.NewReader(make([]byte, 100<<10)))
		if _, err := other.readBody(); !errors.Is(err, want) {
			t.Errorf("a body from %s: %v, want %v", address, err, want)
		}
		other.release()
	}
	_ = send.CloseWithError(io.ErrUnexpectedEOF)
	if err := <-done; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a body that breaks off: %v, want %v", err, io.ErrUnexpectedEOF)
	}
	slow.release()
	upstreamtest.Equal(t, 0, account.Held(), "bytes held after all bodies are done with")
}

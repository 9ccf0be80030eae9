package client

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
)

// writes counts calls.
type writes int

func (w *writes) Write(p []byte) (int, error) {
	*w++
	return len(p), nil
}

func TestSetBody_LeavesInOneWriteWithTheHeader(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	setBody(r, []byte(`{"jsonrpc":"2.0"}`))
	var n writes
	if err := r.Write(&n); err != nil || n != 1 {
		t.Errorf("%d writes, %v, want one", n, err)
	}
}

// Thousands of servers may be down at once, and what they once needed is of no use until they are back.
func TestDialer_KeepsNoNetworkForAServerThatIsDown(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	d := NewDialers(config.Upstream{
		Name: "up", URLs: []string{"http://" + listener.Addr().String()}, Transport: config.StreamableHTTP, Concurrency: 1, Timeout: time.Second,
	}, Options{})[0]
	if d.http.connections() == nil {
		t.Fatal("there is no network for a request")
	}
	if _, err := d.Connect(t.Context(), SessionOptions{}); err == nil {
		t.Fatal("a server answered that is down")
	}
	if d.http.network.Load() != nil {
		t.Error("the network is kept")
	}
}

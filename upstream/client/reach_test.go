package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestReach_FailsAsConnectDoes(t *testing.T) {
	t.Parallel()
	guarded := errors.New("not this one")
	for name, test := range map[string]struct {
		url   string
		guard func(string) error
		want  client.Kind
	}{
		"nobody listens": {"http://" + upstreamtest.Address(t) + "/secret", nil, client.ConnectionRefused},
		"guarded":        {"http://127.0.0.1/secret", func(string) error { return guarded }, client.AddressNotAllowed},
		"guarded, HTTPS": {"https://127.0.0.1/secret", func(string) error { return guarded }, client.AddressNotAllowed},
		"no such host":   {"http://no..host/secret", nil, client.UnknownHost}, // no name server is asked for a name like this
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := client.NewDialer(upstreamtest.HTTP("away", test.url), client.Options{DialGuard: test.guard})
			_, connect := d.Connect(t.Context(), client.SessionOptions{})
			reach := d.Reach(t.Context())
			if !client.NotReached(connect) || !client.NotReached(reach) {
				t.Fatalf("Connect: %v; Reach: %v; want that no connection was made", connect, reach)
			}
			got, want := client.CauseOf(reach), client.CauseOf(connect)
			if got != want || got.Kind != test.want {
				t.Errorf("Reach fails because %v, Connect because %v; want %s", got, want, test.want)
			}
			if strings.Contains(reach.Error(), "secret") || strings.Contains(reach.Error(), "no..host") {
				t.Errorf("Reach = %v, which has parts of the URL", reach)
			}
		})
	}
}

func TestReach_FindsAServer(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	defer server.Close()
	d := client.NewDialer(upstreamtest.HTTP("there", server.URL), client.Options{})
	if err := d.Reach(t.Context()); err != nil || requests.Load() > 0 {
		t.Errorf("Reach = %v, after %d requests", err, requests.Load())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Reach(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Reach = %v after its context has ended", err)
	}
}

// It is asked as often as connectors are down.
func TestReach_CostsLessThanConnect(t *testing.T) {
	d := client.NewDialer(upstreamtest.HTTP("away", "http://"+upstreamtest.Address(t)), client.Options{})
	connect := upstreamtest.Allocs(t, func() { _, _ = d.Connect(t.Context(), client.SessionOptions{}) })
	reach := upstreamtest.Allocs(t, func() { _ = d.Reach(t.Context()) })
	if reach > connect/3 {
		t.Errorf("Reach allocates %.0f times, Connect %.0f", reach, connect)
	}
}

package cluster

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// newTestForwarder returns the forwarder of a replica, with cursor keys.
func newTestForwarder(t *testing.T, cfg config.Cluster, keys ...byte) *Forwarder {
	t.Helper()
	var ring [][32]byte
	for _, key := range keys {
		ring = append(ring, [32]byte{key})
	}
	sealer, err := seal.New(ring)
	if err != nil {
		t.Fatal(err)
	}
	f := newForwarder(&cfg, slog.New(slog.DiscardHandler))
	f.use(&config.Config{Gateway: config.Gateway{PublicURL: "https://prompts.example.com/mcp"}}, sealer)
	return f
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// A header is good for one request with its method, target and body, at the process that it was
// sealed for, within ten seconds.
func TestAccept_TakesAHeaderOnceForWhatItWasSealedFor(t *testing.T) {
	ann := Origin{Principal: "user:ann", Client: "192.0.2.7"}
	for name, test := range map[string]struct {
		keys    []byte // of the receiver
		sealed  func(*ticket)
		headers func(sealed string) []string
		body    string
		want    bool
	}{
		"as it should be":               {want: true},
		"just in time":                  {sealed: func(p *ticket) { p.Issued -= lifetime.Milliseconds() }, want: true},
		"late":                          {sealed: func(p *ticket) { p.Issued -= lifetime.Milliseconds() + 1 }},
		"from a clock that is ahead":    {sealed: func(p *ticket) { p.Issued += lifetime.Milliseconds() }, want: true},
		"from one that is far ahead":    {sealed: func(p *ticket) { p.Issued += lifetime.Milliseconds() + 1 }},
		"for another process":           {sealed: func(p *ticket) { p.Instance = make([]byte, len(p.Instance)) }},
		"for another method":            {sealed: func(p *ticket) { p.Method = http.MethodDelete }},
		"for another path":              {sealed: func(p *ticket) { p.Target = "/mcp?sessionId=x" }},
		"for another session":           {sealed: func(p *ticket) { p.Target = "/sse?sessionId=y" }},
		"for another body":              {body: ping + " "},
		"while keys are being replaced": {keys: []byte{2, 1}, want: true},
		"after its key was removed":     {keys: []byte{2}},
		"none":                          {headers: func(string) []string { return nil }},
		"empty":                         {headers: func(string) []string { return []string{""} }},
		"twice":                         {headers: func(sealed string) []string { return []string{sealed, sealed} }},
		"altered": {headers: func(sealed string) []string {
			middle := len(sealed) / 2
			return []string{sealed[:middle] + string(sealed[middle]^1) + sealed[middle+1:]}
		}},
		"that a client has made up": {headers: func(string) []string { return []string{`{"Principal":"user:ann"}`} }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.keys == nil {
					test.keys = []byte{1}
				}
				from := newTestForwarder(t, config.Cluster{Advertise: "http://10.0.0.1:8080"}, 1)
				to := newTestForwarder(t, config.Cluster{Advertise: "http://10.0.0.2:8080"}, test.keys...)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://10.0.0.2:8080/sse?sessionId=x", nil)
				sealed := from.ticket(r, []byte(ping), Home{to.address, to.instance}, ann)
				if test.sealed != nil {
					var p ticket
					plain, err := from.now.Load().headers.Open(sealed)
					if err != nil || json.Unmarshal(plain, &p) != nil {
						t.Fatal(err)
					}
					test.sealed(&p)
					plain, _ = json.Marshal(p)
					sealed = from.now.Load().headers.Seal(plain)
				}
				r.Header[Header] = []string{sealed}
				if test.headers != nil {
					r.Header[Header] = test.headers(sealed)
				}
				body := []byte(ping)
				if test.body != "" {
					body = []byte(test.body)
				}
				if got, ok := to.Accept(r, body); ok != test.want || ok && got != ann {
					t.Errorf("Accept = %+v, %t, want %t", got, ok, test.want)
				}
				for range 12 { // replays, until long after it is not valid any more
					if _, ok := to.Accept(r, body); ok && test.want {
						t.Error("a header is accepted for a second time")
					}
					time.Sleep(2 * time.Second)
				}
			})
		})
	}
}

func TestAccept_RemembersABoundedNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s seen
		for i := range maxSeen {
			if !s.add(strconv.Itoa(i)) {
				t.Fatalf("header %d is refused", i)
			}
		}
		if s.add("one more") {
			t.Error("one more is accepted, and an earlier one may have been forgotten")
		}
		time.Sleep(2 * lifetime)
		if !s.add("later") || s.add("0") {
			t.Error("want one accepted later, and those before remembered")
		}
	})
}

// proxyTo forwards what a client posts to the replica that made an id; a request that is not answered
// there gets 410.
func proxyTo(from *Forwarder, id string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		home, ok := from.Elsewhere(id)
		if !ok || !from.Forward(w, r, body, home, Origin{"user:ann", "192.0.2.7"}) {
			w.WriteHeader(http.StatusGone)
		}
	})
}

// The receiver gets what is carried, under the Host of the client, and no credential.
func TestForward_SendsNoCredential(t *testing.T) {
	var to *Forwarder
	received := make(chan *http.Request, 1)
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if _, ok := to.Accept(r, body); !ok || string(body) != ping {
			t.Errorf("%s is not accepted", body)
		}
		received <- r
		w.WriteHeader(http.StatusAccepted)
	}))
	defer there.Close()
	to = newTestForwarder(t, config.Cluster{Advertise: there.URL}, 1)
	from := newTestForwarder(t, config.Cluster{Advertise: "http://10.0.0.1:8080"}, 1)
	if from.proxied.Proxy != nil {
		t.Error("other replicas are reached through the egress proxy")
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://prompts.example.com/sse?sessionId=x", strings.NewReader(ping))
	r.Header = http.Header{
		"Authorization": {"Bearer ann"}, "Cookie": {"a=b"}, "Cf-Access-Jwt-Assertion": {"x"}, "X-Forwarded-For": {"192.0.2.1"}, "Forwarded": {"for=192.0.2.1"},
		Header: {"made up"}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {"s"}, "Traceparent": {"00-1-2-01"},
	}
	w := httptest.NewRecorder()
	proxyTo(from, to.NewID()).ServeHTTP(w, r)
	upstreamtest.Equal(t, http.StatusAccepted, w.Code, "status")
	got := <-received
	upstreamtest.Equal(t, "prompts.example.com", got.Host, "Host")
	got.Header.Del(Header)
	want := http.Header{
		"Content-Type": {"application/json"}, "Mcp-Session-Id": {"s"}, "Traceparent": {"00-1-2-01"}, "Content-Length": {strconv.Itoa(len(ping))},
	}
	upstreamtest.Equal(t, want, got.Header, "headers")
}

// If a replica is gone, hangs or was replaced, or no replica has made the id, the caller answers.
func TestForward_IsFalseWithoutAResponse(t *testing.T) {
	var current atomic.Pointer[Forwarder]
	var hangs atomic.Bool
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if hangs.Load() {
			<-r.Context().Done()
		}
		if _, ok := current.Load().Accept(r, body); !ok {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer there.Close()
	to := newTestForwarder(t, config.Cluster{Advertise: there.URL}, 1)
	current.Store(to)
	from := newTestForwarder(t, config.Cluster{Advertise: "http://10.0.0.1:8080"}, 1)
	stranger := newTestForwarder(t, config.Cluster{Advertise: there.URL}, 2)
	send := func(id string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		proxyTo(from, id).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://prompts.example.com/mcp", strings.NewReader(ping)))
		upstreamtest.Equal(t, want, w.Code, "status for %q", id)
	}
	id := to.NewID()
	send(id, http.StatusOK)
	for _, unknown := range []string{"", "made up", from.NewID(), stranger.NewID(), id + "x", (*Forwarder)(nil).NewID()} {
		send(unknown, http.StatusGone)
	}
	hangs.Store(true)
	from.proxied.ResponseHeaderTimeout = 50 * time.Millisecond
	send(id, http.StatusGone)
	hangs.Store(false)
	current.Store(newTestForwarder(t, config.Cluster{Advertise: there.URL}, 1)) // it was started again
	send(id, http.StatusGone)
	there.Close()
	send(id, http.StatusGone)
}

// Over TLS, replicas show each other certificates, and verify the host of public_url.
func TestForward_VerifiesReplicasByTheHostOfPublicURL(t *testing.T) {
	authority := upstreamtest.NewAuthority(t, "test")
	certificates, key := upstreamtest.PEM(t, authority.Client("replica"))
	for host, want := range map[string]int{"prompts.example.com": http.StatusOK, "other.example.com": http.StatusGone} {
		there := authority.Serve(host, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
		to := newTestForwarder(t, config.Cluster{Advertise: there}, 1)
		from := newTestForwarder(t, config.Cluster{
			Advertise: "https://10.0.0.1:8443",
			TLS: &config.TLS{
				CAs: config.NewSecret(authority.PEM), Certificate: config.NewSecret(certificates), Key: config.NewSecret(key),
			},
		}, 1)
		w := httptest.NewRecorder()
		proxyTo(from, to.NewID()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://prompts.example.com/mcp", strings.NewReader(ping)))
		upstreamtest.Equal(t, want, w.Code, "status at %s", host)
	}
}

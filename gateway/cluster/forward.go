package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
)

const (
	// Header is the header of a forwarded request. It replaces all credentials.
	Header = "Promptweir-Forwarded"
	// lifetime bounds the age of a header. The sender's clock may also be ahead by this time.
	lifetime = 10 * time.Second
	// maxSeen bounds the headers that a replica accepts within 2*lifetime.
	maxSeen = 100_000
	// answerTimeout bounds the time until the other replica begins its response.
	answerTimeout = 10 * time.Second
	// idleTimeout is shorter than the idle timeout of the other replica's server, so that no request is sent
	// on a connection that the server is closing.
	idleTimeout = 30 * time.Second
)

// carried lists the client's headers that are forwarded. Credentials must not be among them.
//
//nolint:gochecknoglobals // a constant
var carried = []string{"Content-Type", "Mcp-Session-Id", "Traceparent", "Tracestate"}

// Forwarder forwards requests to the replica that holds their session or call, and accepts requests
// of other replicas. A nil Forwarder does neither. Its methods are safe for concurrent use.
type Forwarder struct {
	address  string
	instance instance
	logger   *slog.Logger
	proxied  *http.Transport
	now      atomic.Pointer[generation]
	seen     seen
	late     sync.Once
}

// instance is the random id of one process.
type instance [16]byte

// generation contains the values that depend on the configuration in use.
type generation struct {
	ids, headers *seal.Box
	// serverName is the TLS server name of all replicas.
	serverName string
}

// newForwarder returns nil if there is no advertise address, because other replicas then cannot reach this
// replica.
func newForwarder(cfg *config.Cluster, logger *slog.Logger) *Forwarder {
	if cfg.Advertise == "" {
		return nil
	}
	settings := cfg.TLS.ClientConfig()
	f := &Forwarder{address: cfg.Advertise, logger: logger}
	rand.Read(f.instance[:]) // it never fails
	dialer := &net.Dialer{Timeout: dialTimeout}
	// Do not set Proxy: the egress proxy is for upstreams, not for replicas.
	f.proxied = &http.Transport{
		DialContext: dialer.DialContext,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			named := settings.Clone()
			named.ServerName, named.MinVersion = f.now.Load().serverName, tls.VersionTLS12
			return (&tls.Dialer{NetDialer: dialer, Config: named}).DialContext(ctx, network, address)
		},
		DisableCompression: true, MaxIdleConnsPerHost: 32, IdleConnTimeout: idleTimeout,
		ResponseHeaderTimeout: answerTimeout,
	}
	return f
}

// use switches to the keys and the server name of cfg.
func (f *Forwarder) use(cfg *config.Config, sealer *seal.Sealer) {
	if f == nil {
		return
	}
	next := &generation{ids: sealer.For("replica"), headers: sealer.For("forwarded request")}
	if public, err := url.Parse(cfg.Gateway.PublicURL); err == nil {
		next.serverName = public.Hostname()
	}
	f.now.Store(next)
}

// NewID returns a random id. Unless f is nil, the id is sealed, and contains this replica's address and
// instance id.
func (f *Forwarder) NewID() string {
	if f == nil {
		return rand.Text()
	}
	plain := make([]byte, 2*len(instance{}), 2*len(instance{})+len(f.address))
	copy(plain, f.instance[:])
	rand.Read(plain[len(instance{}):])
	return f.now.Load().ids.Seal(append(plain, f.address...))
}

// Home is the replica that made an id.
type Home struct {
	address  string
	instance instance
}

// Elsewhere returns the replica that made an id. ok is false for an id with the address of f: it is from this
// process or from an earlier one.
func (f *Forwarder) Elsewhere(id string) (home Home, ok bool) {
	if f == nil {
		return Home{}, false
	}
	plain, err := f.now.Load().ids.Open(id)
	if err != nil || len(plain) < 2*len(instance{}) {
		return Home{}, false
	}
	home = Home{string(plain[2*len(instance{}):]), instance(plain)}
	return home, home.address != f.address
}

// Origin is the client of a forwarded request, as authenticated by the replica that received it.
type Origin struct {
	// Principal is the key of the principal, Client the client's address.
	Principal, Client string
}

// ticket is the sealed content of the header.
type ticket struct {
	Origin

	// Instance is the receiver's instance id.
	Instance []byte
	// Method, Target and Body describe the request. Body is the SHA-256 of its body.
	Method, Target string
	Body           []byte
	// Issued is in milliseconds since 1970. ID is random.
	Issued int64
	ID     string
}

// errRefused means that the other replica does not hold the request's session or call.
var errRefused = errors.New("the replica refused the request")

// Forward sends a request to another replica, and that replica's response to the client. body is the body of
// r, which the caller has read. If the replica cannot be reached or was restarted, Forward writes nothing and
// returns false. The caller then answers as for an id from before a restart.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, body []byte, to Home, from Origin) (answered bool) {
	answered = true
	proxy := httputil.ReverseProxy{
		Transport: f.proxied, ErrorLog: log.New(io.Discard, "", 0), // ErrorHandler logs errors
		Rewrite: func(p *httputil.ProxyRequest) {
			target, _ := url.Parse(to.address) // the address of a sealed id parses
			p.SetURL(target)
			p.Out.Host, p.Out.Header = p.In.Host, http.Header{Header: {f.ticket(p.Out, body, to, from)}}
			for _, name := range carried {
				if values := p.In.Header.Values(name); values != nil {
					p.Out.Header[name] = values
				}
			}
			p.Out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			p.Out.Body, _ = p.Out.GetBody()
			p.Out.ContentLength, p.Out.TransferEncoding = int64(len(body)), nil
		},
		ModifyResponse: func(response *http.Response) error {
			if response.StatusCode == http.StatusNotFound {
				return errRefused
			}
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			answered = r.Context().Err() != nil // a client that has left needs no answer
			f.logger.DebugContext(r.Context(), "request not forwarded", slog.String("replica", to.address), slog.Any("error", err))
		},
	}
	proxy.ServeHTTP(w, r)
	return answered
}

// ticket returns the value of [Header] for a request to another replica.
func (f *Forwarder) ticket(r *http.Request, body []byte, to Home, from Origin) string {
	sum := sha256.Sum256(body)
	plain, _ := json.Marshal(ticket{ // it never fails
		Origin: from, Instance: to.instance[:], Method: r.Method, Target: r.URL.RequestURI(), Body: sum[:],
		Issued: time.Now().UnixMilli(), ID: rand.Text(),
	})
	return f.now.Load().headers.Seal(plain)
}

// Accept returns the origin of a forwarded request. ok is false if the header was not sealed for
// this request and process, is too old, or was used before.
func (f *Forwarder) Accept(r *http.Request, body []byte) (from Origin, ok bool) {
	values := r.Header.Values(Header)
	if f == nil || len(values) != 1 {
		return Origin{}, false
	}
	plain, err := f.now.Load().headers.Open(values[0])
	var t ticket
	if err != nil || json.Unmarshal(plain, &t) != nil {
		return Origin{}, false
	}
	sum := sha256.Sum256(body)
	if !bytes.Equal(t.Instance, f.instance[:]) || t.Method != r.Method || t.Target != r.URL.RequestURI() ||
		!bytes.Equal(t.Body, sum[:]) {
		return Origin{}, false
	}
	if age := time.Since(time.UnixMilli(t.Issued)); age.Abs() > lifetime {
		f.late.Do(func() {
			f.logger.WarnContext(r.Context(), "request of another replica refused: it was recorded, or the clocks differ by "+
				"more than 10 s", slog.Duration("age", age))
		})
		return Origin{}, false
	}
	return t.Origin, f.seen.add(t.ID)
}

// seen contains the ids of recently accepted headers. The zero value is ready for use.
type seen struct {
	mu sync.Mutex // guards the fields below
	// current contains the ids of the current period, before the ids of the previous period.
	current, before map[string]struct{}
	since           time.Time
}

// add remembers an id for at least 2*lifetime, since the sender's clock may be ahead. It returns false if the
// id was added before, or if the current period has maxSeen ids.
func (s *seen) add(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.since) >= 2*lifetime {
		s.current, s.before, s.since = map[string]struct{}{}, s.current, now
	}
	_, isCurrent := s.current[id]
	_, isBefore := s.before[id]
	if isCurrent || isBefore || len(s.current) >= maxSeen {
		return false
	}
	s.current[id] = struct{}{}
	return true
}

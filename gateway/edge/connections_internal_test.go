package edge

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// arriving is a listener on which connections arrive from the addresses that are sent; it has no more after the last one.
type arriving chan string

func (a arriving) Accept() (net.Conn, error) {
	select {
	case address := <-a:
		return from{address: address}, nil
	default:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
}

func (arriving) Addr() net.Addr { return nil }
func (arriving) Close() error   { return nil }

// from is a connection from an address, without anything below it.
type from struct {
	net.Conn

	address string
}

func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.address), Port: 1} }
func (f from) Close() error         { return nil }

// clients connect to a ledger from any address.
type clients struct {
	t        *testing.T
	ledger   *Ledger
	arriving arriving
	listener net.Listener
}

func newClients(t *testing.T, limit int, cfg *config.Config, log *upstreamtest.Log) *clients {
	t.Helper()
	c := &clients{t: t, arriving: make(arriving, 1), ledger: New(Options{Connections: limit, Logger: slog.New(slog.NewTextHandler(log, nil))})}
	c.listener = c.ledger.Listen(new(http.Server), c.arriving, func() *config.Config { return cfg }) //nolint:gosec // it never serves
	return c
}

// connect returns a connection from an address; nil if it was refused.
func (c *clients) connect(address string) *Conn {
	c.t.Helper()
	c.arriving <- address
	accepted, err := c.listener.Accept()
	if conn, ok := accepted.(*Conn); ok {
		return conn
	}
	if !errors.Is(err, syscall.EMFILE) {
		c.t.Errorf("Accept: %v, want that the connection was closed and the next one asked for", err)
	}
	return nil
}

// fill connects from addresses until one connection is refused, and returns the others.
func (c *clients) fill(address func(i int) string) (conns []*Conn) {
	c.t.Helper()
	for conn := c.connect(address(0)); conn != nil; conn = c.connect(address(len(conns))) {
		conns = append(conns, conn)
	}
	return conns
}

func anywhere(i int) string { return fmt.Sprintf("192.0.2.%d", i) }
func (c *clients) wantEmpty(conns ...*Conn) {
	c.t.Helper()
	for range 2 { // closing a connection again does nothing
		for _, conn := range conns {
			_ = conn.Close()
			conn.Authenticated() // too late
		}
	}
	if l := c.ledger; l.open != 0 || l.unauthenticated != 0 || len(l.accounts) != 0 {
		c.t.Errorf("%d open, %d unauthenticated, %d accounts after all have left", l.open, l.unauthenticated, len(l.accounts))
	}
}

func TestLedger_RefusesConnectionsBeyondTheLimit(t *testing.T) {
	var log upstreamtest.Log
	c := newClients(t, 16, &config.Config{}, &log)
	conns := c.fill(anywhere)
	upstreamtest.Equal(t, 16, len(conns), "connections where everybody is anonymous")
	if !strings.Contains(log.String(), `level=WARN msg="connection refused: too many are open" bound=all limit=16 client=192.0.2.16`) {
		t.Errorf("log: %s", log.String())
	}
	_ = conns[0].Close()
	if conns[0] = c.connect("192.0.2.1"); conns[0] == nil {
		t.Error("no newcomer gets the place of a connection that was closed")
	}
	c.wantEmpty(conns...)
}

// People who have shown a credential, and those who open another connection then, do not depend on how many strangers come.
func TestLedger_StrangersTakeHalfOfTheConnections(t *testing.T) {
	var log upstreamtest.Log
	c := newClients(t, 16, &config.Config{Auth: &config.Auth{}}, &log)
	strangers := c.fill(anywhere)
	upstreamtest.Equal(t, 8, len(strangers), "connections without a credential")
	if !strings.Contains(log.String(), "bound=unauthenticated") {
		t.Errorf("log: %s", log.String())
	}
	known := strangers
	for range 3 {
		known[0].Authenticated()
		next := c.connect("192.0.2.200")
		if next == nil {
			t.Fatal("a connection is refused although one of the strangers has shown a credential")
		}
		known = append([]*Conn{next}, known...)
	}
	c.wantEmpty(known...)
}

func TestLedger_OneAddressTakesAQuarterOfTheConnections(t *testing.T) {
	for address, want := range map[string]int{
		"192.0.2.1": 4, "2001:db8::1": 4, "10.1.2.3": 16, "::ffff:10.1.2.3": 16,
	} {
		var log upstreamtest.Log
		cfg := &config.Config{Gateway: config.Gateway{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
		c := newClients(t, 16, cfg, &log)
		conns := c.fill(func(int) string { return address })
		upstreamtest.Equal(t, want, len(conns), "connections from %s", address)
		if want == 4 {
			if !strings.Contains(log.String(), "bound=address") {
				t.Errorf("log: %s", log.String())
			}
			conns = append(conns, c.connect("192.0.2.2"))
		}
		c.wantEmpty(conns...)
	}
	c := newClients(t, 16, &config.Config{}, &upstreamtest.Log{})
	upstreamtest.Equal(t, 4, len(c.fill(func(i int) string { return fmt.Sprintf("2001:db8::%d", i) })), "connections from one network of IPv6")
}

func TestLedger_OnePrincipalTakesAQuarterInStreams(t *testing.T) {
	for _, test := range []struct {
		limit, most, want int
		multiplexed       bool
	}{
		{16, 0, 4, false}, {16, 8, 4, false}, {16, 3, 3, false}, {16, 0, 4, true}, {2, 0, 1, false}, {0, 5, 5, true},
	} {
		l := New(Options{Connections: test.limit})
		var releases []func()
		for release, ok := l.OpenStream("user:ann", test.most, test.multiplexed); ok; release, ok = l.OpenStream("user:ann", test.most, test.multiplexed) {
			releases = append(releases, release)
		}
		upstreamtest.Equal(t, test.want, len(releases), "streams with %+v", test)
		release, ok := l.OpenStream("user:bob", test.most, test.multiplexed)
		if !ok {
			t.Errorf("%+v: another principal gets no stream", test)
			continue
		}
		release()
		for _, release := range releases {
			release()
		}
		if l.open != 0 || len(l.accounts) != 0 {
			t.Errorf("%+v: %d places, %d accounts after all have ended", test, l.open, len(l.accounts))
		}
	}
}

// A stream over HTTP/2 takes no connection of its own, but the memory of one.
func TestLedger_StreamsOverHTTP2CountAsConnections(t *testing.T) {
	c := newClients(t, 4, &config.Config{}, &upstreamtest.Log{})
	conn := c.connect("192.0.2.1")
	for i := range 3 {
		if _, ok := c.ledger.OpenStream(fmt.Sprint("user:", i), 0, true); !ok {
			t.Fatalf("stream %d is refused", i)
		}
	}
	if _, ok := c.ledger.OpenStream("user:ann", 0, true); ok || c.connect("192.0.2.2") != nil {
		t.Error("a stream or connection more than the limit")
	}
	_ = conn.Close()
	if c.connect("192.0.2.2") == nil {
		t.Error("no newcomer gets the place of a connection that was closed")
	}
}

func TestListen_SaysWhyAConnectionIsNotAccepted(t *testing.T) {
	var log upstreamtest.Log
	c := newClients(t, 16, &config.Config{}, &log)
	if _, err := c.listener.Accept(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Accept: %v, want %v", err, syscall.EMFILE)
	}
	if !strings.Contains(log.String(), `level=WARN msg="connection not accepted" error="accept: too many open files"`) {
		t.Errorf("log: %s", log.String())
	}
}

package edge

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// from is a connection from an address, without anything below it.
type from struct {
	net.Conn

	address string
}

func (f from) RemoteAddr() net.Addr   { return &net.TCPAddr{IP: net.ParseIP(f.address), Port: 1} }
func (f from) Close() error           { return nil }
func (from) Read([]byte) (int, error) { return 1, nil }

// arriving is a listener on which connections arrive from the addresses that are sent.
type arriving chan string

func (a arriving) Accept() (net.Conn, error) { return from{address: <-a}, nil }
func (arriving) Addr() net.Addr              { return nil }
func (arriving) Close() error                { return nil }

// clients connect to a ledger from any address.
type clients struct {
	t      *testing.T
	ledger *Ledger
	listen func(address string) *Conn
}

func newClients(t *testing.T, most int) clients {
	t.Helper()
	ledger, in := New(Options{Connections: most}), make(arriving, 1)
	l := ledger.Listen(new(http.Server), in) //nolint:gosec // it never serves
	return clients{t, ledger, func(address string) *Conn {
		in <- address
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conn, _ := c.(*Conn)
		return conn
	}}
}

// stream opens a stream of somebody whose credential was accepted.
func (c clients) stream(owner string) (ending <-chan struct{}) {
	conn := c.listen("198.51.100.1")
	conn.Authenticated()
	ending, _ = c.ledger.OpenStream(conn, false, owner)
	return ending
}

func hasEnded(ending <-chan struct{}) bool {
	select {
	case <-ending:
		return true
	default:
		return false
	}
}

func (c clients) wantOpen(want int, conns ...*Conn) {
	c.t.Helper()
	open := 0
	for _, conn := range conns {
		if !conn.slot.over {
			open++
		}
	}
	if open != want {
		c.t.Errorf("%d of %d connections are open, want %d", open, len(conns), want)
	}
}

func TestLedger_EvictsUnauthenticatedFirstOverAnEighth(t *testing.T) {
	c := newClients(t, 16)
	var streams []<-chan struct{}
	for range 13 { // all of one person, who is the largest client by far
		streams = append(streams, c.stream("ann"))
	}
	var silent []*Conn
	for i := range 30 {
		silent = append(silent, c.listen("192.0.2."+strconv.Itoa(i)))
	}
	if slices.ContainsFunc(streams, hasEnded) {
		t.Error("a stream has ended for a connection without a credential")
	}
	c.wantOpen(3, silent...)
	for range 2 { // until one silent connection is left which, with one more that is new, is an eighth
		streams = append(streams, c.stream("ann"))
	}
	if slices.ContainsFunc(streams, hasEnded) {
		t.Error("a stream has ended while silent connections have more than an eighth")
	}
	c.stream("bob")
	c.wantOpen(1, silent...)
	if !hasEnded(streams[0]) || hasEnded(streams[1]) {
		t.Error("the largest client has not lost its oldest stream, and nothing else")
	}
}

// People behind one address do not lose the connections on which their first requests wait to be admitted.
func TestLedger_KeepsFirstRequestsFromStrangers(t *testing.T) {
	const limit, people, steps = 160, 8, 20
	for name, stranger := range map[string]struct {
		addresses, perStep int
		sends, leaves      bool
	}{
		"silent":                   {limit, 4, false, false},
		"sending a byte":           {limit, 4, true, false},
		"connecting again":         {limit, 16, true, true},
		"many from one address":    {1, 100, true, false},
		"many from seven networks": {7, 100, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClients(t, limit)
			var strangers, office []*Conn
			connect := func(address string, sends bool) *Conn {
				conn := c.listen(address)
				if sends {
					_, _ = conn.Read(make([]byte, 1)) // never fails
				}
				return conn
			}
			arrive := func() {
				i := len(strangers)
				address := fmt.Sprintf("2001:db8:%x::1", i%stranger.addresses)
				strangers = append(strangers, connect(address, stranger.sends))
			}
			for range limit {
				arrive()
			}
			for range people {
				office = append(office, connect("192.0.2.1", true))
			}
			for range steps {
				for range stranger.perStep {
					if stranger.leaves {
						_ = strangers[len(strangers)-limit+people].Close()
					}
					arrive()
				}
			}
			c.wantOpen(people, office...)
			c.wantOpen(limit-people, strangers...)
		})
	}
}

func TestLedger_ManyNetworksOfOneSiteAreOneClient(t *testing.T) {
	for _, test := range []struct {
		networks       int
		neighbourLoses bool
	}{{maxNetworks - 1, true}, {maxNetworks, false}} {
		c := newClients(t, 20)
		var site, neighbour []*Conn
		for i := range 4 {
			neighbour = append(neighbour, c.listen("2001:db8:1::"+strconv.Itoa(i+1)))
		}
		for i := range 16 {
			site = append(site, c.listen(fmt.Sprintf("2001:db8:2:%x::1", i%test.networks)))
		}
		c.wantOpen(16, site...)
		c.listen("2001:db8:3::1")
		if test.neighbourLoses {
			c.wantOpen(3, neighbour...)
		} else {
			c.wantOpen(4, neighbour...)
		}
		for _, conn := range append(site, neighbour...) {
			_ = conn.Close()
		}
		upstreamtest.Equal(t, 2, len(c.ledger.accounts), "accounts for one connection")
	}
}

// A site is ranked as one client from the moment at which it has eight networks, and no longer.
func TestLedger_RanksASiteByItsNetworksOfThisMoment(t *testing.T) {
	fill := func() (c clients, site, neighbour []*Conn) {
		c = newClients(t, 20)
		for i := range 4 {
			neighbour = append(neighbour, c.listen("2001:db8:1::"+strconv.Itoa(i+1)))
		}
		for i := range 16 {
			site = append(site, c.listen(fmt.Sprintf("2001:db8:2:%x::1", i%maxNetworks)))
		}
		return c, site, neighbour
	}
	t.Run("one network less", func(t *testing.T) {
		c, site, neighbour := fill()
		for _, i := range []int{0, maxNetworks} { // both connections of one network
			_ = site[i].Close()
		}
		for i := range 3 {
			c.listen("192.0.2." + strconv.Itoa(i))
		}
		c.wantOpen(14, site...)
		c.wantOpen(3, neighbour...)
	})
	t.Run("one network more", func(t *testing.T) {
		c, site, neighbour := fill()
		for _, i := range []int{0, maxNetworks} {
			_ = site[i].Close()
		}
		if _, ok := c.ledger.CountStream("2001:db8:2:0::/64", 0); !ok { // it holds something again
			t.Fatal("a stream is refused")
		}
		for i := range 3 {
			c.listen("192.0.2." + strconv.Itoa(i))
		}
		c.wantOpen(13, site...)
		c.wantOpen(4, neighbour...)
	})
}

// An eviction must not cost more the more addresses there are: whoever floods the gateway with
// connections pays for each.
func TestRanking_FindsTheLargestAmongMany(t *testing.T) {
	var r ranking
	accounts := make([]*account, 1000)
	for i := range accounts {
		accounts[i] = &account{key: key{client: strconv.Itoa(i)}}
		for range 1 + i%7 {
			r.add(&slot{account: accounts[i]})
		}
	}
	for left := r.slots.Len(); left > 0; left-- {
		s, most := r.victim(nil), 0
		for _, a := range accounts {
			most = max(most, a.slots[all].list.Len())
		}
		if got := s.account.slots[all].list.Len(); got != most {
			t.Fatalf("the victim's client has %d slots, want %d, as many as any", got, most)
		}
		r.remove(s)
	}
	if s := r.victim(nil); s != nil || len(r.levels) > 0 {
		t.Errorf("a victim is left, or one of %d levels", len(r.levels))
	}
}

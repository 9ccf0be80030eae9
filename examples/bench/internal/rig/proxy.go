package rig

import (
	"context"
	"net"
	"sync"
	"time"
)

// Proxy stands between the gateway and what it connects to, and does with their connections what bad
// networks do.
type Proxy struct {
	// Address is where it listens, To what it connects to.
	Address, To string

	mu       sync.Mutex // guards what follows
	listener net.Listener
	conns    map[net.Conn]struct{}
	networks [2]Network
	resets   bool
}

// Directions of bytes through a proxy.
const (
	ToServer = iota
	FromServer
)

// Network is how one direction of a proxy treats bytes.
type Network struct {
	// Lost says that none arrive until it is mended, when they arrive late, as TCP repeats them.
	Lost bool
	// Delay is how late they arrive.
	Delay time.Duration
	// Piece is how many arrive at a time, 0 being all, and Pause the time after each piece.
	Piece int
	Pause time.Duration
}

// Proxy starts a proxy in front of an address.
func (st *Stage) Proxy(to string) *Proxy {
	p := &Proxy{Address: AnyAddress, To: to, conns: map[net.Conn]struct{}{}}
	p.Accept(st.ctx)
	st.Defer(func() { p.Treat(Network{}, Network{}); p.Refuse() })
	return p
}

// Treat has the network treat the two directions in a way.
func (p *Proxy) Treat(toServer, fromServer Network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.networks = [2]Network{ToServer: toServer, FromServer: fromServer}
}

// Refuse ends all connections and refuses others, until [Proxy.Accept].
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Accept listens.
func (p *Proxy) Accept(ctx context.Context) {
	listener := Must(new(net.ListenConfig).Listen(ctx, "tcp", p.Address))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.Address = listener, listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			server, err := new(net.Dialer).DialContext(ctx, "tcp", p.To)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.carry(client, server)
		}
	}()
}

// Reset resets all connections and, as long as it is on, new ones.
func (p *Proxy) Reset(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
	p.resets = on
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise Close ends the connection in order
	}
	_ = c.Close()
}

// carry passes bytes in both directions, until either ends.
func (p *Proxy) carry(client, server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resets {
		reset(client)
		reset(server)
		return
	}
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	ended := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range []net.Conn{client, server} {
			_ = c.Close()
			delete(p.conns, c)
		}
	}
	go func() { p.pass(client, server, ToServer); ended() }()
	go func() { p.pass(server, client, FromServer); ended() }()
}

func (p *Proxy) network(direction int) Network {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.networks[direction]
}

// pass passes bytes in one direction. Those that arrive late do not keep others from being sent.
func (p *Proxy) pass(from, to net.Conn, direction int) {
	type sent struct {
		bytes []byte
		due   time.Time
	}
	queue := make(chan sent, 1000)
	go func() {
		defer close(queue)
		for {
			b := make([]byte, 32<<10)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			queue <- sent{b[:n], time.Now().Add(p.network(direction).Delay)}
		}
	}()
	for next := range queue {
		time.Sleep(time.Until(next.due))
		for rest := next.bytes; len(rest) > 0; {
			n := p.network(direction)
			for ; n.Lost; n = p.network(direction) {
				time.Sleep(5 * time.Millisecond)
			}
			piece := len(rest)
			if n.Piece > 0 {
				piece = min(piece, n.Piece)
			}
			if _, err := to.Write(rest[:piece]); err != nil {
				_ = from.Close() // which ends the queue
				break
			}
			rest = rest[piece:]
			time.Sleep(n.Pause)
		}
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A mode is what a server does wrong. The modes "400" to "599" are HTTP statuses of all requests that
// begin; streams go on.
type mode string

const (
	healthy   mode = "healthy"
	html      mode = "HTML"
	truncated mode = "truncated"
	wrongID   mode = "wrong id"
	huge      mode = "1 GiB"
	// These break off in the middle of a response to a get, or stop there.
	resetInBody  mode = "reset in body"
	stopInBody   mode = "stop in body"
	resetInEvent mode = "reset in event"
	stopInEvent  mode = "stop in event"
)

const (
	// modeInterval is how often a server that does nothing looks for another mode.
	modeInterval = 20 * time.Millisecond
	// hugeSize is the size of a response in the mode huge, in bytes.
	hugeSize = 1 << 30
)

// faultyServer is the server that has the fault. The gateway, or its child process that passes on what it
// reads, reaches it through a proxy.
type faultyServer struct {
	st     *rig.Stage
	server *upstreamtest.Peer
	proxy  *rig.Proxy
	// block is the body of the upstream block.
	block string

	mu   sync.Mutex // guards what follows
	mode mode
	pid  int // of the child
}

// admit starts the server of a fault.
func admit(st *rig.Stage, f *fault) *faultyServer {
	p := &faultyServer{st: st, mode: healthy, server: upstreamtest.NewLoadPeer(true, 300, illPrompt())}
	p.server.Intercept(p.spoil)
	if f.workers > 0 {
		p.server.Workers, p.server.Delay = make(chan struct{}, f.workers), workTime
	}
	if f.child {
		listener := rig.Must(new(net.ListenConfig).Listen(st.Context(), "tcp", rig.AnyAddress))
		st.Defer(func() { _ = listener.Close() })
		go p.serveChildren(listener)
		p.proxy = st.Proxy(listener.Addr().String())
		p.block = fmt.Sprintf("command = [%q, \"child\", %q]", rig.Must(os.Executable()), p.proxy.Address)
		return p
	}
	p.proxy = st.Proxy(strings.TrimPrefix(st.Serve(p), "http://"))
	p.block = fmt.Sprintf("url = \"http://%s/mcp\"", p.proxy.Address)
	return p
}

func illPrompt() string {
	return upstreamtest.Prompt(promptName, "A prompt of a server that may be ill")
}

func (p *faultyServer) now() mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

// set has the server do something wrong from now on.
func (p *faultyServer) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
}

// relist gives the server another list.
func (p *faultyServer) relist() {
	p.server.Offer(illPrompt(), upstreamtest.Prompt(otherPromptName, "A prompt that another list has"))
}

// kill ends all connections and sessions, and refuses others.
func (p *faultyServer) kill() {
	p.proxy.Refuse()
	p.server.Forget()
}

func (p *faultyServer) start() { p.proxy.Accept(p.st.Context()) }

func (p *faultyServer) restart() {
	p.kill()
	p.start()
}

// stop has the server, or the child process, do nothing until proceed is called.
func (p *faultyServer) stop() {
	if !p.signal(syscall.SIGSTOP) {
		p.proxy.Treat(rig.Network{Lost: true}, rig.Network{Lost: true})
	}
}

func (p *faultyServer) proceed() {
	if !p.signal(syscall.SIGCONT) {
		p.proxy.Treat(rig.Network{}, rig.Network{})
	}
}

// signal sends a signal to the child process, if the server is one.
func (p *faultyServer) signal(s syscall.Signal) (sent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		_ = syscall.Kill(p.pid, s) // fails if the gateway has started another one meanwhile
	}
	return p.pid != 0
}

// ServeHTTP implements [http.Handler].
func (p *faultyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := strconv.Atoi(string(p.now())); err == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	p.server.ServeHTTP(w, r)
}

// spoil answers a get in a mode that gets are answered wrongly in.
func (p *faultyServer) spoil(w http.ResponseWriter, r *upstreamtest.Request) (done bool) {
	now, m := p.now(), r.Message
	if now == healthy || m.Method != wire.PromptsGet {
		return false
	}
	answer := p.server.Respond(nil, m.ID, wire.PromptsGet)
	half := answer[:len(answer)/2]
	w.Header().Set("Content-Type", wire.ContentJSON)
	switch now {
	case html:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!DOCTYPE html><p>Please log in.") // fails only if the client has gone
	case truncated:
		_, _ = w.Write(half) // as above
	case wrongID:
		_, _ = w.Write(p.server.Respond(nil, []byte("987654321"), wire.PromptsGet)) // as above
	case huge:
		more := bytes.Repeat([]byte("x"), 1<<20)
		_, err := w.Write(half)
		for written := 0; err == nil && written < hugeSize; written += len(more) {
			_, err = w.Write(more) // fails when the client has had enough
		}
	case resetInBody, stopInBody:
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		p.breakOff(w, r.Request, half, now)
	case resetInEvent, stopInEvent:
		w.Header().Set("Content-Type", wire.ContentSSE)
		p.breakOff(w, r.Request, append([]byte("data: "), half...), now)
	}
	return true
}

// breakOff writes the first half of a response, and then resets the connection or writes no more.
func (p *faultyServer) breakOff(w http.ResponseWriter, r *http.Request, half []byte, now mode) {
	_, _ = w.Write(half)                      // an error recurs in Flush
	_ = http.NewResponseController(w).Flush() // fails only if the client has gone
	if now == stopInBody || now == stopInEvent {
		for p.now() == now && r.Context().Err() == nil {
			time.Sleep(modeInterval)
		}
	}
	panic(http.ErrAbortHandler) // which closes the connection
}

// runChild is a child process of the gateway. It tells the faultyServer its process ID, and then passes on
// what it reads.
func runChild(ctx context.Context, args []string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", args[0])
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, os.Getpid()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		os.Exit(0) // the gateway has gone
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

func (p *faultyServer) serveChildren(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // it is over
		}
		go func() {
			defer conn.Close()
			lines, pid := bufio.NewReader(conn), 0
			_, _ = fmt.Fscanln(lines, &pid) // fails only if the child has ended
			p.mu.Lock()
			p.pid = pid
			p.mu.Unlock()
			_ = p.server.ServeStdio(lines, conn) // ends as conn does
		}()
	}
}

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
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A mode is what a server does wrong. The modes "400" to "599" are HTTP statuses of all requests that
// begin; streams go on.
type mode string

// The modes of a server over HTTP and, from wedged on, of a child process.
const (
	healthy mode = "healthy"
	// otherList offers another list of prompts.
	otherList mode = "other list"
	// forgetful ends all sessions once.
	forgetful mode = "forgets sessions"
	html      mode = "HTML"
	truncated mode = "truncated"
	wrongID   mode = "wrong id"
	huge      mode = "1 GiB"
	// These break off in the middle of a response to a get, or stop there.
	resetInBody  mode = "reset in body"
	stopInBody   mode = "stop in body"
	resetInEvent mode = "reset in event"
	stopInEvent  mode = "stop in event"

	wedged   mode = "wedged"   // reads and does not answer
	deaf     mode = "deaf"     // does not read
	noisy    mode = "noisy"    // prints what is no message
	crashing mode = "crashing" // exits at each start
)

const (
	// modeInterval is how often a server that does nothing looks for another mode.
	modeInterval = 20 * time.Millisecond
	// hugeSize is the size of a response in the mode huge, in bytes.
	hugeSize = 1 << 30
	// serverName is the name of the ill server in a faked hosts file.
	serverName = "ill.test"
)

// patient is the server that a fault befalls, and how the gateway reaches it: through a proxy, or as a
// child process that passes on what it reads.
type patient struct {
	st     *rig.Stage
	server *rig.Server
	proxy  *rig.Proxy
	reach  reach
	hosts  string // a file
	// block is the body of the upstream block.
	block string

	mu    sync.Mutex // guards what follows
	mode  mode
	child net.Conn
	pid   int // of the child
}

// admit starts the server of a fault.
func admit(st *rig.Stage, f *fault) *patient {
	p := &patient{st: st, reach: f.reach, server: rig.NewServer(true, max(f.size, 300))}
	p.server.OnGet = p.spoil
	p.set(healthy)
	if f.reach == asChild {
		listener := rig.Must(new(net.ListenConfig).Listen(st.Context(), "tcp", rig.AnyAddress))
		st.Defer(func() { _ = listener.Close() })
		go p.serveChildren(listener)
		p.block = fmt.Sprintf("command = [%q, \"child\", %q]", rig.Must(os.Executable()), listener.Addr())
		return p
	}
	p.proxy = st.Proxy(strings.TrimPrefix(st.Serve(p), "http://"))
	address := p.proxy.Address
	switch f.reach {
	case behindHAProxy:
		address = st.HAProxy(0, address) // which answers in place of a server that it cannot reach
	case byName:
		address = strings.Replace(address, "127.0.0.1", serverName, 1)
		p.hosts = filepath.Join(st.Dir(), "hosts")
		p.name("127.0.0.1")
	}
	p.block = fmt.Sprintf("url = \"http://%s/mcp\"", address)
	return p
}

func (p *patient) now() mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode
}

// set has the server do something wrong from now on.
func (p *patient) set(m mode) {
	prompts := []string{rig.Prompt(promptName, "A prompt of a server that may be ill")}
	switch m {
	case otherList:
		p.server.Offer(append(prompts, rig.Prompt(otherPromptName, "A prompt that another list has"))...)
	case forgetful:
		p.server.Forget()
	case healthy:
		if before := p.now(); before == "" || before == otherList {
			p.server.Offer(prompts...)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	if m == crashing {
		_ = p.child.Close() // which ends the process
	}
}

// kill ends all connections and sessions, and refuses others.
func (p *patient) kill() {
	p.proxy.Refuse()
	p.server.Forget()
}

func (p *patient) start() { p.proxy.Accept(p.st.Context()) }

func (p *patient) restart() {
	p.kill()
	p.start()
}

// stop has the server, or the child process, do nothing until proceed is called.
func (p *patient) stop() {
	if p.reach == asChild {
		p.signal(syscall.SIGSTOP)
		return
	}
	p.proxy.Treat(rig.Network{Lost: true}, rig.Network{Lost: true})
}

func (p *patient) proceed() {
	if p.reach == asChild {
		p.signal(syscall.SIGCONT)
		return
	}
	p.proxy.Treat(rig.Network{}, rig.Network{})
}

func (p *patient) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(p.pid, s) // fails if the gateway has started another one meanwhile
}

// name lets the server's name mean an IP address, or nothing. The file stays the same, since it is
// mounted over /etc/hosts.
func (p *patient) name(ip string) {
	text := "127.0.0.1 localhost\n"
	if ip != "" {
		text += ip + " " + serverName + "\n"
	}
	rig.Check(os.WriteFile(p.hosts, []byte(text), 0o600))
}

// move gives the server another IP address.
func (p *patient) move(ip string) {
	p.kill()
	p.proxy.Address = strings.Replace(p.proxy.Address, "127.0.0.1", ip, 1)
	p.name(ip)
	p.start()
}

// command returns what starts the gateway. Where the server has a name, the gateway sees another hosts
// file.
func (p *patient) command(gateway string) []string {
	if p.reach != byName {
		return []string{gateway}
	}
	const mounted = `mount --bind "$0" /etc/hosts && exec "$@"`
	return []string{"unshare", "--map-root-user", "--mount", "sh", "-c", mounted, p.hosts, gateway}
}

// ServeHTTP implements [http.Handler].
func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := strconv.Atoi(string(p.now())); err == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	p.server.ServeHTTP(w, r)
}

// spoil answers a get in a mode that gets are answered wrongly in.
func (p *patient) spoil(w http.ResponseWriter, r *http.Request, m wire.Message) (done bool) {
	answer := p.server.Respond(nil, m.ID, wire.PromptsGet)
	half := answer[:len(answer)/2]
	w.Header().Set("Content-Type", wire.ContentJSON)
	switch now := p.now(); now {
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
		p.breakOff(w, r, half, now)
	case resetInEvent, stopInEvent:
		w.Header().Set("Content-Type", wire.ContentSSE)
		p.breakOff(w, r, append([]byte("data: "), half...), now)
	default:
		return false
	}
	return true
}

// breakOff writes the first half of a response, and then resets the connection or writes no more.
func (p *patient) breakOff(w http.ResponseWriter, r *http.Request, half []byte, now mode) {
	_, _ = w.Write(half)                      // an error recurs in Flush
	_ = http.NewResponseController(w).Flush() // fails only if the client has gone
	if now == stopInBody || now == stopInEvent {
		for p.now() == now && r.Context().Err() == nil {
			time.Sleep(modeInterval)
		}
	}
	panic(http.ErrAbortHandler) // which closes the connection
}

// runChild is a child process of the gateway. It tells the patient its process ID, and then passes on
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

func (p *patient) serveChildren(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // it is over
		}
		if p.now() == crashing {
			_ = conn.Close() // that is the fault
			continue
		}
		go func() {
			defer conn.Close()
			lines := bufio.NewReader(conn)
			p.mu.Lock()
			p.child = conn
			_, _ = fmt.Fscanln(lines, &p.pid) // fails only if the gateway has gone
			p.mu.Unlock()
			in, out := io.Pipe()
			go p.makeNoise(conn)
			go func() { _ = out.CloseWithError(p.passLines(lines, out)) }()
			_ = p.server.ServeStdio(in, conn) // ends as conn does
		}()
	}
}

func (p *patient) passLines(from *bufio.Reader, to io.Writer) error {
	for {
		for p.now() == deaf {
			time.Sleep(modeInterval)
		}
		line, err := from.ReadBytes('\n')
		if err != nil {
			return err
		}
		if p.now() == wedged {
			continue
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
}

// makeNoise prints lines that are no messages while the mode is noisy.
func (p *patient) makeNoise(to io.Writer) {
	noise := []byte(strings.Repeat(strings.Repeat("noise ", 100)+"\n", 100))
	for err := error(nil); err == nil; {
		if p.now() == noisy {
			_, err = to.Write(noise) // fails if the child has ended
		} else {
			time.Sleep(modeInterval)
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// serverName is the name of the ill server in a faked hosts file.
const serverName = "ill.test"

// patient is the server that a fault befalls.
type patient struct {
	dir   string
	fault *fault
	// toxiproxy is set where the gateway reaches the server through it, with the name of the proxy.
	toxiproxy *rig.Toxiproxy
	proxy     string

	server  *rig.Process // nil for a child of the gateway, and while it is killed
	ip      string
	address string // host:port, the same after a restart
	scheme  string
	haproxy *rig.Process
	// block is the body of the upstream block.
	block string
}

// admit starts the server of a fault, and what the gateway reaches it through. Close must be called, also after an error.
func admit(ctx context.Context, t *rig.Toxiproxy, dir string, f *fault, id int) (*patient, error) {
	p := &patient{dir: dir, fault: f, toxiproxy: t, ip: "127.0.0.1", proxy: fmt.Sprint("ward", id)}
	if err := p.set(healthy); err != nil {
		return p, err
	}
	if f.reach == asChild {
		program, err := os.Executable()
		if err != nil {
			return p, err
		}
		quoted := []string{strconv.Quote(program)}
		for _, arg := range append([]string{"server", "-stdio"}, p.flags()...) {
			quoted = append(quoted, strconv.Quote(arg))
		}
		p.block = "command = [" + strings.Join(quoted, ", ") + "]"
		return p, nil
	}
	if err := p.start(ctx); err != nil {
		return p, err
	}
	return p, p.arrange(ctx)
}

// haproxyBefore lets streams last. HAProxy answers in place of a server that it cannot reach.
const haproxyBefore = `defaults
  mode http
  retries 0
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  timeout tunnel 60s
frontend front
  bind ADDRESS
  default_backend back
backend back
  server only %s
`

func (p *patient) arrange(ctx context.Context) error {
	address := p.address
	var err error
	switch p.fault.reach {
	case overToxiproxy:
		address, err = p.toxiproxy.Proxy(ctx, p.proxy, p.address)
	case overHAProxy:
		p.haproxy, address, err = rig.StartHAProxy(ctx, p.dir, fmt.Sprintf(haproxyBefore, p.address))
	case byName:
		_, port, _ := net.SplitHostPort(p.address) // it was split from a URL
		address = net.JoinHostPort(serverName, port)
		err = p.name(p.ip)
	}
	p.block = fmt.Sprintf("url = %q", p.scheme+"://"+address+"/mcp")
	if p.fault.reach == overTLS {
		p.block += fmt.Sprintf("\n    tls { ca_file = %q }", p.file("ca.pem"))
	}
	return err
}

func (p *patient) file(name string) string { return filepath.Join(p.dir, name) }

func (p *patient) flags() []string {
	flags := []string{"-mode", p.file("mode"), "-pid", p.file("pid")}
	if p.fault.size > 0 {
		flags = append(flags, "-size", strconv.Itoa(p.fault.size))
	}
	return flags
}

// set tells the server its mode. The file is replaced and never half written.
func (p *patient) set(m mode) error {
	next := p.file("mode.next")
	return errors.Join(os.WriteFile(next, []byte(m), 0o600), os.Rename(next, p.file("mode")))
}

// start starts the server over HTTP, at its old address if it had one.
func (p *patient) start(ctx context.Context) error {
	listen := p.address
	if listen == "" {
		listen = p.ip + ":0"
	}
	args := append(p.flags(), "-listen", listen)
	if p.fault.reach == overTLS {
		args = append(args, "-tls", p.file("ca.pem"))
	}
	var err error
	if p.server, err = startServer(ctx, args...); err != nil {
		return err
	}
	u, err := url.Parse(p.server.Endpoint)
	if err != nil {
		return err
	}
	p.scheme, p.address = u.Scheme, u.Host
	return nil
}

func startServer(ctx context.Context, args ...string) (*rig.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return rig.Listen(ctx, program, append([]string{"server"}, args...)...)
}

func (p *patient) kill() error {
	server := p.server
	p.server = nil
	return server.Kill()
}

func (p *patient) restart(ctx context.Context) error {
	if err := p.kill(); err != nil {
		return err
	}
	return p.start(ctx)
}

func (p *patient) signal(s syscall.Signal) error {
	text, err := os.ReadFile(p.file("pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// name lets the server's name mean an IP address, or nothing. The file stays the same, since it is mounted over /etc/hosts.
func (p *patient) name(ip string) error {
	text := "127.0.0.1 localhost\n"
	if ip != "" {
		text += ip + " " + serverName + "\n"
	}
	return os.WriteFile(p.file("hosts"), []byte(text), 0o600)
}

// move gives the server another IP address from its next start on.
func (p *patient) move(ip string) error {
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		return err
	}
	p.ip, p.address = ip, net.JoinHostPort(ip, port)
	return p.name(ip)
}

// command returns what starts the gateway. Where the server has a name, the gateway sees another hosts file.
func (p *patient) command(gateway string) []string {
	if p.fault.reach != byName {
		return []string{gateway}
	}
	const mounted = `mount --bind "$0" /etc/hosts && exec "$@"`
	return []string{"unshare", "--map-root-user", "--mount", "sh", "-c", mounted, p.file("hosts"), gateway}
}

func (p *patient) close() {
	for _, running := range []*rig.Process{p.server, p.haproxy} {
		if running != nil {
			_ = running.Kill() // it may have been stopped
		}
	}
}

package main

import (
	"context"
	"slices"
	"strconv"
	"syscall"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// Reasons that gets fail for, as in data.reason of their errors.
const (
	unreachable = "unreachable"
	timedOut    = "timeout"
	badResponse = "bad_response"
	denied      = "denied"
	rateLimited = "rate_limited"
	// These may follow others.
	breakerOpen = "breaker_open"
	overloaded  = "overloaded"
)

// A fault is something that goes wrong with one of the servers, and what the gateway promises about it.
type fault struct {
	name string
	// reach is how the gateway reaches the server.
	reach reach
	// idle says that the server is not called meanwhile.
	idle bool
	// size is that of the server's prompts in bytes; 0 means ordinary.
	size int
	// reasons are those that gets of the server may fail for; without one, they are answered all the time.
	reasons []string
	// unmarked says that the fault need not be seen, because it does no harm or lasts no time.
	unmarked bool
	// relisted says that the server has another list afterwards.
	relisted   bool
	begin, end func(context.Context, *patient) error
}

// reach is how the gateway reaches the server that is to be ill.
type reach int

const (
	directly reach = iota
	overTLS
	overToxiproxy
	overHAProxy
	byName
	asChild
)

func faults() []fault {
	all := slices.Concat(processFaults(), networkFaults(), answerFaults(), childFaults())
	for i := range all {
		if all[i].end == nil {
			all[i].end = becomes(healthy)
		}
	}
	return all
}

func processFaults() []fault {
	stop := func(_ context.Context, p *patient) error { return p.signal(syscall.SIGSTOP) }
	proceed := func(_ context.Context, p *patient) error { return p.signal(syscall.SIGCONT) }
	kill := func(_ context.Context, p *patient) error { return p.kill() }
	start := func(ctx context.Context, p *patient) error { return p.start(ctx) }
	return []fault{
		{name: "killed", begin: kill, end: start, reasons: []string{unreachable}},
		{name: "killed, behind HAProxy", reach: overHAProxy, begin: kill, end: start, reasons: []string{unreachable}},
		{name: "stopped", begin: stop, end: proceed, reasons: []string{timedOut}},
		{name: "stopped, idle", begin: stop, end: proceed, reasons: []string{timedOut}, idle: true},
		{name: "stopped, behind HAProxy", reach: overHAProxy, begin: stop, end: proceed, reasons: []string{timedOut}},
		{name: "boots slowly", reasons: []string{unreachable}, begin: func(ctx context.Context, p *patient) error {
			if err := p.restart(ctx); err != nil {
				return err
			}
			return p.set("503")
		}},
		{
			name: "restarts with another list", reasons: []string{unreachable}, unmarked: true, relisted: true,
			begin: func(ctx context.Context, p *patient) error {
				if err := p.set(otherList); err != nil {
					return err
				}
				return p.restart(ctx)
			},
			end: func(context.Context, *patient) error { return nil },
		},
		{name: "forgets its sessions", unmarked: true, begin: becomes(forgetful)},
		{name: "certificate expired", reach: overTLS, reasons: []string{unreachable}, begin: becomes(expired)},
		{name: "DNS name gone", reach: byName, reasons: []string{unreachable}, begin: func(ctx context.Context, p *patient) error {
			if err := p.name(""); err != nil {
				return err
			}
			return p.restart(ctx) // without the connections that are open
		}, end: func(_ context.Context, p *patient) error { return p.name("127.0.0.1") }},
		{name: "DNS name moved", reach: byName, reasons: []string{unreachable}, unmarked: true, begin: func(ctx context.Context, p *patient) error {
			if err := p.kill(); err != nil {
				return err
			}
			if err := p.move("127.0.0.2"); err != nil {
				return err
			}
			return p.start(ctx)
		}, end: func(context.Context, *patient) error { return nil }},
	}
}

// becomes returns the beginning of a fault that is a mode of the server.
func becomes(m mode) func(context.Context, *patient) error {
	return func(_ context.Context, p *patient) error { return p.set(m) }
}

// networkFaults are those of Toxiproxy, between the gateway and a server.
func networkFaults() []fault {
	const toServer, fromServer = "upstream", "downstream"
	vanish := func(stream string) rig.Toxic {
		return rig.Toxic{Type: "timeout", Stream: stream, Attributes: map[string]int{"timeout": 0}}
	}
	late := func(milliseconds int) rig.Toxic {
		return rig.Toxic{Type: "latency", Stream: fromServer, Attributes: map[string]int{"latency": milliseconds}}
	}
	network := func(f fault, toxics ...rig.Toxic) fault {
		f.reach = overToxiproxy
		begun := f.begin
		f.begin = func(ctx context.Context, p *patient) error {
			if err := p.toxiproxy.Add(ctx, p.proxy, toxics...); err != nil || begun == nil {
				return err
			}
			return begun(ctx, p)
		}
		f.end = func(ctx context.Context, p *patient) error { return p.toxiproxy.Remove(ctx, p.proxy, toxics...) }
		return f
	}
	lost := []string{timedOut}
	return []fault{
		{
			name: "connection refused", reach: overToxiproxy, reasons: []string{unreachable},
			begin: func(ctx context.Context, p *patient) error { return p.toxiproxy.Enable(ctx, p.proxy, false) },
			end:   func(ctx context.Context, p *patient) error { return p.toxiproxy.Enable(ctx, p.proxy, true) },
		},
		network(fault{name: "connections reset", reasons: []string{unreachable}},
			rig.Toxic{Type: "reset_peer", Stream: fromServer, Attributes: map[string]int{"timeout": 0}}),
		network(fault{name: "half-open towards the server", reasons: lost}, vanish(toServer)),
		network(fault{name: "half-open from the server", reasons: lost}, vanish(fromServer)),
		network(fault{name: "half-open both ways, idle", reasons: lost, idle: true}, vanish(toServer), vanish(fromServer)),
		network(fault{name: "list changes while half-open, idle", reasons: lost, idle: true, relisted: true, begin: becomes(otherList)}, vanish(fromServer)),
		network(fault{name: "latency of 2 s", unmarked: true}, late(2000)),
		network(fault{name: "latency of 30 s", reasons: lost}, late(30_000)),
		network(fault{name: "1 KB/s", reasons: lost, size: 20_000}, rig.Toxic{Type: "bandwidth", Stream: fromServer, Attributes: map[string]int{"rate": 1}}),
		network(fault{name: "drip of a byte in 20 ms", reasons: lost},
			rig.Toxic{Type: "slicer", Stream: fromServer, Attributes: map[string]int{"average_size": 1, "size_variation": 0, "delay": 20_000}}),
	}
}

func answerFaults() []fault {
	answers := func(name string, m mode, reasons ...string) fault {
		return fault{name: name, begin: becomes(m), reasons: reasons}
	}
	status := func(code int, reason string) fault {
		return answers("HTTP "+strconv.Itoa(code), mode(strconv.Itoa(code)), reason)
	}
	return []fault{
		status(500, badResponse),
		status(502, unreachable),
		status(503, unreachable),
		status(429, rateLimited),
		status(401, denied),
		status(404, badResponse),
		answers("HTML with 200", html, badResponse),
		answers("truncated JSON", truncated, badResponse),
		answers("wrong id", wrongID, badResponse),
		answers("1 GiB", huge, badResponse),
		answers("reset in body", resetInBody, badResponse),
		answers("stop in body", stopInBody, timedOut, badResponse), // the latter when the fault ends, and the response is broken off
		answers("reset in event", resetInEvent, badResponse, unreachable),
		answers("stop in event", stopInEvent, timedOut, badResponse),
	}
}

func childFaults() []fault {
	child := func(name string, begin func(context.Context, *patient) error, reasons ...string) fault {
		return fault{name: "child " + name, reach: asChild, begin: begin, reasons: reasons}
	}
	killed := child("killed", func(_ context.Context, p *patient) error { return p.signal(syscall.SIGKILL) }, unreachable)
	killed.unmarked = true // it is started again at once
	stopped := child("stopped", func(_ context.Context, p *patient) error { return p.signal(syscall.SIGSTOP) }, timedOut)
	stoppedIdle := child("stopped, idle", stopped.begin, timedOut)
	stoppedIdle.idle = true
	stopped.end = func(_ context.Context, p *patient) error {
		_ = p.signal(syscall.SIGCONT) // fails if the gateway has started another one meanwhile
		return nil
	}
	stoppedIdle.end = stopped.end
	noise := child("noisy", becomes(noisy), timedOut, badResponse)
	noise.unmarked = true // a gateway that has the time reads past it
	return []fault{
		killed, stopped, stoppedIdle,
		child("wedged", becomes(wedged), timedOut),
		noise,
		child("deaf", becomes(deaf), timedOut),
		child("crashing", becomes(crashing), unreachable),
	}
}

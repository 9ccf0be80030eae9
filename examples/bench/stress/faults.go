package main

import (
	"slices"
	"strconv"
	"syscall"
	"time"

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
	// child says that the server is a child process of the gateway.
	child bool
	// idle says that the server is not called meanwhile.
	idle bool
	// workers is how many gets the server answers at a time, each in workTime; 0 means all at once.
	workers int
	// reasons are those that gets of the server may fail for; without one, they are answered all the
	// time.
	reasons []string
	// unmarked says that the fault need not be seen, because it does no harm or lasts no time.
	unmarked bool
	// relisted says that the server has another list afterwards.
	relisted   bool
	begin, end func(*faultyServer)
}

func faults() []fault {
	all := slices.Concat(processFaults(), networkFaults(), answerFaults(), childFaults())
	for i := range all {
		if all[i].end == nil {
			all[i].end = becomes(healthy)
		}
	}
	return all
}

// becomes returns the begin of a fault that is a mode of the server.
func becomes(m mode) func(*faultyServer) { return func(p *faultyServer) { p.set(m) } }

func processFaults() []fault {
	var (
		kill, start   = (*faultyServer).kill, (*faultyServer).start
		stop, proceed = (*faultyServer).stop, (*faultyServer).proceed
		broken        = []string{unreachable}
		hangs         = []string{timedOut}
	)
	return []fault{
		{name: "killed", begin: kill, end: start, reasons: broken},
		{name: "stopped", begin: stop, end: proceed, reasons: hangs},
		{name: "stopped, idle", begin: stop, end: proceed, reasons: hangs, idle: true},
		{name: "boots slowly", begin: func(p *faultyServer) { p.restart(); p.set("503") }, reasons: broken},
		{
			name: "restarts with another list", reasons: broken, unmarked: true, relisted: true,
			begin: func(p *faultyServer) { p.relist(); p.restart() }, end: func(*faultyServer) {},
		},
		{name: "forgets its sessions", unmarked: true, begin: func(p *faultyServer) { p.server.Forget() }},
	}
}

// networkFaults are those of a proxy between the gateway and a server.
func networkFaults() []fault {
	network := func(f fault, toServer, fromServer rig.Network) fault {
		begun := f.begin
		f.begin = func(p *faultyServer) {
			p.proxy.Treat(toServer, fromServer)
			if begun != nil {
				begun(p)
			}
		}
		f.end = func(p *faultyServer) { p.proxy.Treat(rig.Network{}, rig.Network{}) }
		return f
	}
	well, lost, hangs := rig.Network{}, rig.Network{Lost: true}, []string{timedOut}
	return []fault{
		{
			name: "connections reset", reasons: []string{unreachable},
			begin: func(p *faultyServer) { p.proxy.Reset(true) }, end: func(p *faultyServer) { p.proxy.Reset(false) },
		},
		network(fault{name: "half-open towards the server", reasons: hangs}, lost, well),
		network(fault{name: "half-open from the server", reasons: hangs}, well, lost),
		network(fault{
			name: "list changes while half-open, idle", reasons: hangs, idle: true, relisted: true,
			begin: (*faultyServer).relist,
		}, well, lost),
		network(fault{name: "latency of 1 s", unmarked: true}, well, rig.Network{Delay: time.Second}),
		// More than half of the timeout, but not for too many gets at a time.
		network(fault{name: "latency of 2 s", unmarked: true}, well, rig.Network{Delay: 2 * time.Second}),
		network(fault{name: "latency of 30 s", reasons: hangs}, well, rig.Network{Delay: 30 * time.Second}),
		network(fault{name: "drip of a byte in 20 ms", reasons: hangs},
			well, rig.Network{Piece: 1, Pause: 20 * time.Millisecond}),
	}
}

func answerFaults() (all []fault) {
	answers := func(name string, m mode, reasons ...string) {
		all = append(all, fault{name: name, begin: becomes(m), reasons: reasons})
	}
	for _, status := range []struct {
		code   int
		reason string
	}{
		{500, badResponse},
		{502, unreachable},
		{503, unreachable},
		{429, rateLimited},
		{401, denied},
		{404, badResponse},
	} {
		code := strconv.Itoa(status.code)
		answers("HTTP "+code, mode(code), status.reason)
	}
	answers("HTML with 200", html, badResponse)
	answers("truncated JSON", truncated, badResponse)
	answers("wrong id", wrongID, badResponse)
	answers("1 GiB", huge, badResponse)
	answers("reset in body", resetInBody, badResponse)
	// The latter when the fault ends, and the response is broken off.
	answers("stop in body", stopInBody, timedOut, badResponse)
	answers("reset in event", resetInEvent, badResponse, unreachable)
	answers("stop in event", stopInEvent, timedOut, badResponse)
	return all
}

func childFaults() []fault {
	kill := func(p *faultyServer) { p.signal(syscall.SIGKILL) }
	stop, proceed := (*faultyServer).stop, (*faultyServer).proceed
	wedge := func(p *faultyServer) { p.proxy.Treat(rig.Network{Lost: true}, rig.Network{Lost: true}) }
	mend := func(p *faultyServer) { p.proxy.Treat(rig.Network{}, rig.Network{}) }
	all := []fault{
		{name: "killed", begin: kill, reasons: []string{unreachable}, unmarked: true}, // it is started at once
		{name: "stopped", begin: stop, end: proceed, reasons: []string{timedOut}},
		{name: "stopped, idle", begin: stop, end: proceed, reasons: []string{timedOut}, idle: true},
		// It reads, and answers nothing.
		{name: "wedged", begin: wedge, end: mend, reasons: []string{timedOut}},
		{
			name: "crashing", reasons: []string{unreachable},
			begin: func(p *faultyServer) { p.proxy.Reset(true) }, end: func(p *faultyServer) { p.proxy.Reset(false) },
		},
	}
	for i := range all {
		all[i].name, all[i].child = "child "+all[i].name, true
	}
	return all
}

package serving

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/promptweir/promptweir/config"
)

// exitSignal is what shells add to the number of the signal that ended a process.
const exitSignal = 128

// SignalError is the cause with which a signal ends the context of [UntilSignal].
type SignalError struct{ Is os.Signal }

func (s *SignalError) Error() string {
	if s.Is == os.Interrupt {
		return "interrupted"
	}
	return s.Is.String()
}

// ExitCode is what shells report for a process that the signal ends.
func (s *SignalError) ExitCode() int {
	number, _ := s.Is.(syscall.Signal)
	return exitSignal + int(number)
}

// UntilSignal returns a context that ends at SIGINT or SIGTERM. A second one of them ends the
// process at once.
func UntilSignal() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		end(&SignalError{<-signals})
		signal.Stop(signals)
	}()
	return ctx
}

// surviveBrokenPipes makes a write to standard output or error fail where nobody reads it any more,
// instead of ending the process there and then.
func surviveBrokenPipes() {
	// Caught and not ignored: child processes would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// serviceManager is what started the process, if it wants to know how that fares: systemd, for a
// unit with Type=notify (sd_notify(3)). To any other, nothing is sent.
type serviceManager struct{ logger *slog.Logger }

// tell says how the process fares. A reload that has begun must be followed by readiness, whether
// it succeeds or not.
func (m serviceManager) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		m.logger.Warn("service manager not told", slog.String("state", state),
			slog.Any("error", err))
	}
}

const (
	// adminConnections bounds the connections of the admin listener. Beyond it the oldest is
	// closed.
	adminConnections = 32
	// ownDescriptors is how many descriptors the process keeps for itself: the admin listener,
	// files, and connections that are about to close.
	ownDescriptors = adminConnections + 64
	// childDescriptors is how many an upstream with a command uses: its pipes, and a handle of the
	// process.
	childDescriptors = 4
	// connectionMemory is what a connection uses with a request in flight, in bytes. Connections
	// may use half of the memory.
	connectionMemory = 32 << 10
)

// maxConnections returns how many connections and streams clients may have under a limit of
// descriptors and with an amount of memory in bytes, 0 if that is not known.
func maxConnections(limit int, memory int64, upstreams []config.Upstream) int {
	needed := ownDescriptors
	for i := range upstreams {
		if needed += childDescriptors; len(upstreams[i].Command) == 0 {
			needed += upstreams[i].Concurrency
		}
	}
	// The upstreams get the descriptors that they may need, from a quarter of the limit to half.
	connections := limit - min(max(needed, limit/4), limit/2)
	if memory > 0 {
		connections = min(connections, int(memory/2/connectionMemory))
	}
	return max(connections, 1)
}

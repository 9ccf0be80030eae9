package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

// scripted is a transport to a server that answers each method from a time after its start on, or never.
type scripted map[string]answer

type answer struct {
	after   time.Duration
	message wire.Message
	err     error
}

// bubbleStart is the time at which each bubble, and so each scripted server, starts.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

func (s scripted) roundTrip(ctx context.Context, r *request) error {
	a, ok := s[r.method]
	if !ok {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-time.After(time.Until(bubbleStart.Add(a.after))):
		r.response = &a.message
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s scripted) start(func(*wire.Message))                {}
func (s scripted) send(context.Context, []byte) error       { return nil }
func (s scripted) standalone(context.Context, func()) error { return ErrNoStream }
func (s scripted) idle() *idleTime                          { return newIdleTime() }
func (s scripted) setRevision(string)                       {}
func (s scripted) done() <-chan struct{}                    { return nil }
func (s scripted) err() error                               { return nil }
func (s scripted) close()                                   {}

func says(after time.Duration, result string) answer {
	return answer{after: after, message: wire.Message{Result: jsontext.Value(result)}}
}

func refuses(after time.Duration) answer {
	return answer{after: after, message: wire.Message{Error: jsontext.Value(`{"code":-32601,"message":"no"}`)}}
}

func TestNegotiate_TakesSilenceForLegacy(t *testing.T) {
	const (
		modern = `{"supportedVersions":["2026-07-28"],"capabilities":{}}`
		legacy = `{"protocolVersion":"2025-06-18","capabilities":{}}`
	)
	for name, test := range map[string]struct {
		peer scripted
		want string // revision, or "" for an error
		at   time.Duration
	}{
		"modern at once": {scripted{wire.Discover: says(0, modern)}, wire.Rev20260728, 0},
		"modern, slow":   {scripted{wire.Discover: says(2*time.Second, modern)}, wire.Rev20260728, 2 * time.Second},
		"both eras, later than 3 s": {scripted{
			wire.Discover: says(9*time.Second, modern), wire.Initialize: says(9*time.Second+time.Millisecond, legacy),
		}, wire.Rev20250618, 9*time.Second + time.Millisecond},
		"modern, refuses initialize":   {scripted{wire.Discover: says(9*time.Second, modern), wire.Initialize: refuses(9 * time.Second)}, wire.Rev20260728, 9 * time.Second},
		"modern, insists on that":      {scripted{wire.Discover: says(9*time.Second, modern), wire.Initialize: says(9*time.Second, `{"protocolVersion":"2026-07-28"}`)}, wire.Rev20260728, 9 * time.Second},
		"legacy, refuses the probe":    {scripted{wire.Discover: refuses(0), wire.Initialize: says(0, legacy)}, wire.Rev20250618, 0},
		"legacy, silent":               {scripted{wire.Initialize: says(0, legacy)}, wire.Rev20250618, 3 * time.Second},
		"legacy, silent and slow":      {scripted{wire.Initialize: says(20*time.Second, legacy)}, wire.Rev20250618, 20 * time.Second},
		"legacy, refuses late":         {scripted{wire.Discover: refuses(5 * time.Second), wire.Initialize: says(9*time.Second, legacy)}, wire.Rev20250618, 9 * time.Second},
		"refuses both":                 {scripted{wire.Discover: refuses(0), wire.Initialize: refuses(0)}, "", 0},
		"refuses both, late":           {scripted{wire.Discover: refuses(9 * time.Second), wire.Initialize: refuses(9 * time.Second)}, "", 9 * time.Second},
		"silent, refuses initialize":   {scripted{wire.Initialize: refuses(4 * time.Second)}, "", 7 * time.Second},
		"silent to both":               {scripted{}, "", handshakeTimeout},
		"speaks a revision of its own": {scripted{wire.Discover: refuses(0), wire.Initialize: says(0, `{"protocolVersion":"1999-01-01"}`)}, "", 0},
		"exits":                        {scripted{wire.Discover: answer{err: ErrExited}}, "", 0},
		"exits late": {scripted{
			wire.Discover: answer{after: 9 * time.Second, err: ErrExited}, wire.Initialize: answer{after: 9 * time.Second, err: ErrExited},
		}, "", 9 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d := NewDialer(config.Upstream{Transport: config.Stdio, Command: []string{"none"}, Protocol: "auto"}, Options{})
				s := newSession(d, d.server, test.peer, SessionOptions{})
				begun := time.Now()
				err := s.open(t.Context())
				if s.Revision != test.want || (err == nil) != (test.want != "") || time.Since(begun) != test.at {
					t.Errorf("open() = %v: revision %q after %s, want %q after %s", err, s.Revision, time.Since(begun), test.want, test.at)
				}
				if _, ok := errors.AsType[*wire.Error](err); strings.Contains(name, "refuses") && err != nil && !ok {
					t.Errorf("open() = %v, want the server's error", err)
				}
				if strings.HasPrefix(name, "exits") && !errors.Is(err, errProbeFatal) {
					t.Errorf("open() = %v, want %v", err, errProbeFatal)
				}
			})
		})
	}
}

// talkative is a transport to a child that writes to its stderr.
type talkative struct{ scripted }

func (talkative) wroteStderr() bool { return true }

// A child that installs itself says so, and has time.
func TestNegotiate_WaitsForASlowChild(t *testing.T) {
	late := scripted{wire.Initialize: says(4*time.Minute, `{"protocolVersion":"2025-06-18","capabilities":{}}`)}
	for name, test := range map[string]struct {
		peer    transport
		timeout time.Duration
		at      time.Duration
		cause   string // "" for a session
	}{
		"silent":                    {late, 10 * time.Second, time.Minute, "has not answered initialize within 1m0s"},
		"writes to stderr":          {talkative{late}, 10 * time.Second, 4 * time.Minute, ""},
		"a long timeout":            {late, 10 * time.Minute, 4 * time.Minute, ""},
		"writes, and never answers": {talkative{}, 10 * time.Second, 5 * time.Minute, "has not answered initialize within 5m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d := NewDialer(config.Upstream{Transport: config.Stdio, Command: []string{"none"}, Protocol: "auto", Timeout: test.timeout}, Options{})
				begun := time.Now()
				err := newSession(d, d.server, test.peer, SessionOptions{}).open(t.Context())
				if since := time.Since(begun); since != test.at || (err == nil) != (test.cause == "") {
					t.Fatalf("open() = %v after %s, want %q after %s", err, since, test.cause, test.at)
				}
				if err != nil && !strings.Contains(CauseOf(d.failure(err)).Problem, test.cause) {
					t.Errorf("the cause is %q, want %q", CauseOf(d.failure(err)).Problem, test.cause)
				}
			})
		})
	}
}

// While a child starts, the cause says for how long it has been starting.
func TestSlowStart_SaysForHowLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := NewDialer(config.Upstream{Transport: config.Stdio, Command: []string{"none"}}, Options{})
		slow := d.SlowStart(20 * time.Second)
		time.Sleep(70 * time.Second)
		if got := CauseOf(slow).Problem; !strings.Contains(got, "within 1m30s") {
			t.Errorf("the cause is %q", got)
		}
	})
}

package audit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// refused is a line that anybody can cause.
func refused(address string) *Line {
	return &Line{Time: time.Now(), Event: Credential, Client: address, Outcome: Refused, Reason: "bad", Prompt: "refused"}
}

// What strangers send fills neither the disk nor the queue, and how much it was is in the log.
func TestLog_WritesFewRefusalsOfStrangers(t *testing.T) {
	const seconds, perSecond = 90, 1000
	for name, test := range map[string]struct {
		address func(i int) string
		most    int
	}{
		"one address": {
			func(int) string { return "192.0.2.1" }, addressLines + int(seconds*time.Second/addressInterval),
		},
		"one network": {
			func(i int) string { return fmt.Sprintf("2001:db8::%x", i%0x10000) }, addressLines + int(seconds*time.Second/addressInterval),
		},
		"any address": {
			func(i int) string { return fmt.Sprintf("192.0.%d.%d", i/256%256, i%256) }, allLines + seconds,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &disk{room: -1}
			l := start(out, true, quiet())
			for second := range seconds {
				for i := range perSecond {
					if err := l.Write(refused(test.address(second*perSecond + i))); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.Write(get("got")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			l.Close()
			lines, counted, got := 0, 0, 0
			for _, r := range out.records(t) {
				switch {
				case r.Event == string(Refusals):
					counted += r.Count
				case r.Prompt == "got":
					got++
				default:
					lines++
				}
			}
			if lines < addressLines || lines > test.most || lines+counted != seconds*perSecond || got != seconds {
				t.Errorf("%s: %d lines of refusals, %d counted, want at most %d and %d in all; %d gets, want %d",
					name, lines, counted, test.most, seconds*perSecond, got, seconds)
			}
		})
	}
}

// One that has used up its lines takes none from others.
func TestLog_WritesRefusalsOfOtherAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &disk{room: -1}
		l := start(out, false, quiet())
		for range 10 * allLines {
			_ = l.Write(refused("192.0.2.1"))
		}
		other := refused("192.0.2.2")
		other.Prompt = "other"
		_ = l.Write(other)
		l.Close()
		names := out.names(t)
		if len(names) != addressLines+2 || names[addressLines] != "other" {
			t.Errorf("recorded %q", names)
		}
	})
}

// Whoever has a credential is recorded each time, whatever becomes of it.
func TestLog_WritesEachRefusalOfAPrincipal(t *testing.T) {
	for want, line := range map[int]Line{
		addressLines: {Subject: "user:ann", Outcome: Refused, Reason: "rate_limited"},
		50:           {Subject: "user:ann", Outcome: Refused},
		52:           {Subject: "user:ann", Outcome: Hidden},
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &disk{room: -1}
			l := start(out, false, quiet())
			line.Event, line.Client, line.Prompt = Get, "192.0.2.1", "refused"
			for range max(want, 50) { // of a limit, the rest is counted
				_ = l.Write(&line)
			}
			l.Close()
			n := 0
			for _, name := range out.names(t) {
				if name == "refused" {
					n++
				}
			}
			if n != want {
				t.Errorf("%d lines of %+v, want %d", n, line, want)
			}
		})
	}
}

// While the file takes nothing, refusals leave half of the queue to what is given.
func TestLog_KeepsRoomForWhatIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &disk{}
		l := start(out, false, quiet())
		_ = l.Write(get("first"))
		time.Sleep(time.Second)
		line := &Line{Event: Get, Subject: "user:ann", Outcome: Refused, Prompt: strings.Repeat("refused", 70)}
		for range 2 * maxQueue / len(line.encode()) {
			_ = l.Write(line)
		}
		_ = l.Write(get("given"))
		out.set(-1)
		time.Sleep(2 * retryPause)
		l.Close()
		names := out.names(t)
		if names[0] != "first" || names[len(names)-2] != "given" {
			t.Errorf("%d lines, the last %q", len(names), names[len(names)-2:])
		}
	})
}

package terminal

import (
	"context"
	"errors"
	"testing"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal/terminaltest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestPrompter_ReadsALine(t *testing.T) {
	for keys, want := range map[string]string{"claude, codex\r": "claude, codex", "\r": "", "\x04": ""} { // Ctrl-D
		k := terminaltest.Open(t)
		p := newPrompterAt(k.Device, k.Device)
		chosen := make(chan string, 1)
		go func() {
			answer, err := p.Choose(t.Context(), "Well\x1b[31m?")
			if err != nil {
				t.Error(err)
			}
			chosen <- answer
		}()
		k.Type(t, "? ", keys)
		upstreamtest.Equal(t, want, <-chosen, "%q", keys)
	}
}

func TestPrompter_ConfirmsOnlyByYes(t *testing.T) {
	for keys, want := range map[string]bool{"y\r": true, "YES\r": true, "n\r": false, "\r": false, "\x04": false} {
		k := terminaltest.Open(t)
		p := newPrompterAt(k.Device, k.Device)
		confirmed := make(chan bool, 1)
		go func() {
			answer, err := p.Confirm(t.Context(), "Well?")
			if err != nil {
				t.Error(err)
			}
			confirmed <- answer
		}()
		k.Type(t, "Well? [y/N] ", keys)
		upstreamtest.Equal(t, want, <-confirmed, "%q", keys)
	}
}

// Ctrl-C is a signal to the command, which ends the context.
func TestPrompter_EndsWithTheCommand(t *testing.T) {
	k := terminaltest.Open(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	if _, err := newPrompterAt(k.Device, k.Device).Choose(ctx, "Well?"); !errors.Is(err, stopped) {
		t.Errorf("%v, want %v", err, stopped)
	}
}

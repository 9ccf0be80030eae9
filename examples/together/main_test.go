package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsAreCutAtPlus(t *testing.T) {
	for args, want := range map[string][][]string{
		"":            nil,
		"+":           nil,
		"a":           {{"a"}},
		"a -x + b":    {{"a", "-x"}, {"b"}},
		"+ a + + b +": {{"a"}, {"b"}},
	} {
		if diff := cmp.Diff(want, split(strings.Fields(args))); diff != "" {
			t.Errorf("split(%q) (-want +got):\n%s", args, diff)
		}
	}
}

func TestTheFirstToEndEndsTheOthers(t *testing.T) {
	began := time.Now()
	err := run(t.Context(), [][]string{{"sleep", "60"}, {"false"}})
	if err == nil || !strings.Contains(err.Error(), "false ended by itself") {
		t.Errorf("run = %v, want who ended", err)
	}
	if took := time.Since(began); took > grace {
		t.Errorf("run took %s, want the other command told to end", took)
	}
}

func TestBeingToldToStopIsNoError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := run(ctx, [][]string{{"sleep", "60"}, {"sleep", "60"}}); err != nil {
		t.Errorf("run = %v, want nil", err)
	}
}

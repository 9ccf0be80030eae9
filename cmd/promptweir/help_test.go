package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command is in a group, or stands for itself at the end, and has examples that its own flags
// allow.
func TestHelp_HasExamplesThatTheFlagsAllow(t *testing.T) {
	for _, command := range newRoot(newApp(streams{})).Commands() {
		if command.GroupID == "" && command.Name() != "version" && command.Name() != "completion" {
			t.Errorf("%s is in no group", command.Name())
		}
		found := 0
		for line := range strings.Lines(command.Example) {
			if _, call, ok := strings.Cut(line, "promptweir "+command.Name()); ok {
				found++
				parseExample(t, command, call)
			}
		}
		if found == 0 {
			t.Errorf("%s has no example with its name", command.Name())
		}
	}
}

// parseExample parses the arguments of an example. None of them has a quoted blank in a flag.
func parseExample(t *testing.T, command *cobra.Command, call string) {
	t.Helper()
	call, _, _ = strings.Cut(call, " <") // redirections
	call, _, _ = strings.Cut(call, " >")
	call, _, _ = strings.Cut(call, ")")
	if err := command.ParseFlags(strings.Fields(call)); err != nil {
		t.Errorf("promptweir %s%s: %v", command.Name(), call, err)
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// childrenOf returns the process IDs of a process's children.
func childrenOf(t *testing.T, parent int) (pids []string) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		content, _ := os.ReadFile(list) // the thread may have ended
		pids = append(pids, strings.Fields(string(content))...)
	}
	return pids
}

// runs reports whether a process runs, and is no zombie.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// Most children see that their stdin ends. This one does not read it.
func TestServe_ChildrenEndWithAKilledGateway(t *testing.T) {
	p := serve(t, configure(t, map[string]string{"team.hcl": "team \"deaf\" {\n  upstream \"deaf\" { command = [\"sleep\", \"3600\"] }\n}\n"}))
	var children []string
	eventually(t, "the child runs", func() bool { children = childrenOf(t, p.Process.Pid); return len(children) > 0 })
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end(t)
	for _, child := range children {
		eventually(t, "the child is gone", func() bool { return !runs(child) })
	}
}

package snapshot_test

import (
	"fmt"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestLockedLists_HaveTheUpstreamsOwnNames(t *testing.T) {
	cfg := gatewaytest.Load(t, `team "eng" {
  upstream "one" { command = ["no-such-command"] }
  upstream "two" {
    command = ["no-such-command"]
    prefix  = ""
    skills  = true
  }
  upstream "three" {
    command = ["no-such-command"]
    prefix  = "one"
  }
}
`)
	var lock config.Lock
	for _, p := range [][3]string{
		{"one.a", "one", `{"title":"A"}`},
		{"former.b", "one", `{}`},
		{"one.c", "gone", `{}`},
		{"one.f", "one", `{"title":"1"}`},
		{"one.f", "three", `{"title":"3"}`}, // by an earlier version
		{"d", "two", `{}`},
		{"skill:e", "two", `{"uri":"skill://e/SKILL.md"}`},
	} {
		locked, err := config.NewLockedPrompt(p[0], p[1], []byte(p[2]))
		if err != nil {
			t.Fatal(err)
		}
		lock = append(lock, locked)
	}
	got := snapshot.LockedLists(cfg, config.NewLock(lock))
	for name, want := range map[string]string{
		"one": `[{"title":"A","name":"a"} {"title":"1","name":"f"}]`, "three": `[{"title":"A","name":"a"} {"title":"3","name":"f"}]`, "two": `[{"name":"d"} {"uri":"skill://e/SKILL.md"}]`,
	} {
		upstreamtest.Equal(t, want, fmt.Sprint(got[name].Definitions), "%s", name)
	}
	upstreamtest.Equal(t, 3, len(got), "upstreams with a list")
}

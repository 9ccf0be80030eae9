package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// usual is the number of connections.
const usual = 32

func get(name string, connections int, modern bool, upstream ...string) contest {
	if !modern {
		upstream = append([]string{"-legacy"}, upstream...)
	}
	return contest{name: name, connections: connections, upstream: upstream, modern: modern, method: wire.PromptsGet, want: `"messages":[{`}
}

// gets and lists are the loads under which builds are compared.
func gets() []contest {
	return []contest{
		get("get 0.3 KB, 2025-11-25", usual, false),
		get("get 0.3 KB, 2026-07-28", usual, true),
		get("get 10 KB, 2025-11-25", usual, false, "-size", "10000"),
		get("get 10 KB, 2026-07-28", usual, true, "-size", "10000"),
		get("get 1 MB, 2025-11-25", usual, false, "-size", "1000000"),
		get("get, upstream takes 20 ms", 128, false, "-delay", "20ms"),
		get("get, upstream takes 20 ms", 2000, false, "-delay", "20ms"),
	}
}

func lists() (all []contest) {
	for _, prompts := range []int{10, 100, 1000} {
		all = append(all, contest{
			name: fmt.Sprintf("list of %d", prompts), connections: usual, upstream: []string{"-legacy", "-prompts", strconv.Itoa(prompts)},
			pageSize: prompts, method: wire.PromptsList, want: fmt.Sprintf(`p%05d"`, prompts-1),
		})
	}
	return all
}

func compareSpeed(ctx context.Context, s settings) error {
	const proxy, page, sdk, upstream = "proxy", "page", "sdk", "upstream"
	all := append(gets(), get("get 0.3 KB, answered by an event stream", usual, false, "-sse"))
	for i := range all {
		all[i].beside = []string{proxy}
	}
	all[0].beside = []string{sdk, upstream, proxy}
	all[5].beside = []string{proxy, upstream} // the server's delay is the bound
	for _, c := range lists() {
		c.beside = []string{page}
		all = append(all, c)
	}
	all[len(all)-1].beside = []string{sdk, page}
	for i := range all {
		all[i].gateways = []spec{{name: "promptweir"}}
	}
	all = append(all, fromFile("0.3 KB", 300), fromFile("10 KB", 10_000), withRules())
	fmt.Println(heading)
	for _, c := range all {
		if s.only.MatchString(c.name) {
			if err := c.compare(ctx, s, 1, s.turns, s.length); err != nil {
				return err
			}
		}
	}
	return nil
}

// fromFile compares a prompt from a file with the same text from a server.
func fromFile(name string, size int) contest {
	c := get("get "+name+" from a file", usual, true, "-size", strconv.Itoa(size))
	c.arguments = `"arguments":{"code":"x := 1"}`
	const head = "---\ndescription: A prompt\narguments:\n  - name: code\n    description: The code to review\n---\n"
	text := strings.Repeat("All work and no play makes a dull prompt. ", size/42+1)[:size]
	c.gateways = []spec{{name: "file", prompts: map[string]string{"p00001.md": head + text + "{{code}}\n"}}, {name: "server"}}
	return c
}

// withRules compares a caller with a token under a thousand rules that match none of the prompts with an anonymous one under none.
func withRules() contest {
	var rules strings.Builder
	for i := range 500 {
		fmt.Fprintf(&rules, "expose \"e%d\" {\n prompts = [\"up.x%d_*\"]\n to = [\"group:g%d\"]\n}\nhide \"h%d\" {\n prompts = [\"up.y%d_*\"]\n}\n", i, i, i, i, i)
	}
	c := get("get with a token and 1000 rules", usual, false)
	c.gateways = []spec{{name: "token and rules", token: "member", rules: rules.String()}, {name: "anonymous"}}
	return c
}

func comparePairs(ctx context.Context, s settings) error {
	if s.against == "" {
		return errors.New("pairs needs -against, an older build")
	}
	fmt.Println(heading)
	for _, c := range append(gets(), lists()...) {
		c.gateways = []spec{{name: "new"}, {name: "old", build: s.against}}
		if err := c.pairs(ctx, s); err != nil {
			return err
		}
	}
	return compareMemory(ctx, s)
}

// turnsOfPair is how many turns each gateway of a pair takes, each half as long as -length says.
const turnsOfPair = 4

func (c contest) pairs(ctx context.Context, s settings) error {
	if !s.only.MatchString(c.name) {
		return nil
	}
	return c.compare(ctx, s, s.pairs, turnsOfPair, s.length/2)
}

// compareRecording compares a gateway with an audit log with one, or with the build of -against, that has
// none.
func compareRecording(ctx context.Context, s settings) error {
	fmt.Println(heading)
	return rig.Run(ctx, func(st *rig.Stage) {
		blocks := fmt.Sprintf("audit {\n  path = %q\n  access = true\n}\n", st.Dir()+"/audit.jsonl")
		for _, c := range gets()[:2] { // small ones: what is recorded does not depend on the size
			c.name += ", audit log"
			c.gateways = []spec{{name: "on", blocks: blocks}, {name: "off", build: s.against}}
			rig.Check(c.pairs(ctx, s))
		}
	})
}

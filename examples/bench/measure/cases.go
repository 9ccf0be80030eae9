package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// usual is the number of connections.
const usual = 32

func get(name string, connections int, of server) contest {
	return contest{
		name: name, connections: connections, upstream: of, method: wire.PromptsGet, want: `"messages":[{`,
	}
}

// gets and lists are the loads under which builds are compared.
func gets() []contest {
	return []contest{
		get("get 0.3 KB, 2025-11-25", usual, server{Legacy: true}),
		get("get 0.3 KB, 2026-07-28", usual, server{}),
		get("get 10 KB, 2025-11-25", usual, server{Legacy: true, Size: 10_000}),
		get("get 10 KB, 2026-07-28", usual, server{Size: 10_000}),
		get("get 1 MB, 2025-11-25", usual, server{Legacy: true, Size: 1_000_000}),
		get("get, upstream takes 20 ms", 128, server{Legacy: true, Delay: 20 * time.Millisecond}),
		get("get, upstream takes 20 ms", 2000, server{Legacy: true, Delay: 20 * time.Millisecond}),
	}
}

func lists() (all []contest) {
	for _, prompts := range []int{10, 100, 1000} {
		all = append(all, contest{
			name: fmt.Sprintf("list of %d", prompts), connections: usual,
			upstream: server{Legacy: true, Prompts: prompts}, pageSize: prompts,
			method: wire.PromptsList, want: fmt.Sprintf(`p%05d"`, prompts-1),
		})
	}
	return all
}

func (s *settings) compareSpeed(ctx context.Context) error {
	const proxy, sdk, upstream = "proxy", "sdk", "upstream"
	all := append(gets(), get("get 0.3 KB, answered by an event stream", usual, server{Legacy: true, SSE: true}))
	for i := range all {
		all[i].beside = []string{proxy}
	}
	all[0].beside = []string{sdk, upstream, proxy}
	all[5].beside = []string{proxy, upstream} // the server's delay is the bound
	for _, c := range lists() {
		c.beside = []string{upstream}
		all = append(all, c)
	}
	all[len(all)-1].beside = []string{sdk, upstream}
	for i := range all {
		all[i].gateways = []spec{{name: "promptweir"}}
	}
	all = append(all, fromFile("0.3 KB", 300), fromFile("10 KB", 10_000))
	fmt.Println(heading)
	for _, c := range all {
		if err := c.compare(ctx, s, 1, s.turns, s.length); err != nil {
			return err
		}
	}
	return nil
}

// fromFile compares a prompt from a file with the same text from a server.
func fromFile(name string, size int) contest {
	c := get("get "+name+" from a file", usual, server{Size: size})
	c.arguments = `"arguments":{"code":"x := 1"}`
	const head = "---\ndescription: A prompt\narguments:\n  - name: code\n    description: The code to review\n---\n"
	c.gateways = []spec{
		{name: "file", prompts: map[string]string{"p00001.md": head + upstreamtest.Text(size) + "{{code}}\n"}},
		{name: "server"},
	}
	return c
}

// turnsOfPair is how many turns each gateway of a pair takes, each half as long as -length says.
const turnsOfPair = 4

func (s *settings) comparePairs(ctx context.Context) error {
	if s.against == "" {
		return errors.New("pairs needs -against, an older build")
	}
	fmt.Println(heading)
	for _, c := range append(gets(), lists()...) {
		c.gateways = []spec{{name: "new"}, {name: "old", build: s.against}}
		if err := c.compare(ctx, s, s.pairs, turnsOfPair, s.length/2); err != nil {
			return err
		}
	}
	return s.compareMemory(ctx)
}

// compareAssertion compares a gateway that tells the server who calls with one that does not. The caller
// has a token in both.
func (s *settings) compareAssertion(ctx context.Context) error {
	fmt.Println(heading)
	return rig.Run(ctx, func(st *rig.Stage) {
		_, key, err := ed25519.GenerateKey(nil)
		rig.Check(err)
		encoded := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: rig.Must(x509.MarshalPKCS8PrivateKey(key))})
		const token = "a-token-of-the-rig-with-32-bytes-or-more"
		blocks := fmt.Sprintf("auth {\n  token \"ann\" { sha256 = \"%x\" }\n}\n", sha256.Sum256([]byte(token)))
		gateway := fmt.Sprintf("public_url = \"https://prompts.example.com\"\n  signing_keys = [%q]", encoded)
		const member = "  members = [\"user:ann\"]\n"
		for _, c := range gets()[:2] {
			c.name, c.token = c.name+", assertion", token
			on := spec{name: "on", blocks: blocks, gateway: gateway, rules: member, upstream: "assertion {}"}
			off := spec{name: "off", blocks: blocks, gateway: gateway, rules: member}
			c.gateways = []spec{on, off}
			rig.Check(c.compare(ctx, s, s.pairs, turnsOfPair, s.length/2))
		}
	})
}

// compareRecording compares a gateway with an audit log with one, or with the build of -against, that has
// none.
func (s *settings) compareRecording(ctx context.Context) error {
	fmt.Println(heading)
	return rig.Run(ctx, func(st *rig.Stage) {
		blocks := fmt.Sprintf("audit {\n  path = %q\n  access = true\n}\n", st.Dir()+"/audit.jsonl")
		for _, c := range gets()[:2] { // small ones: what is recorded does not depend on the size
			c.name += ", audit log"
			c.gateways = []spec{{name: "on", blocks: blocks}, {name: "off", build: s.against}}
			rig.Check(c.compare(ctx, s, s.pairs, turnsOfPair, s.length/2))
		}
	})
}

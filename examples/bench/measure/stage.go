package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// upstream starts a server, and returns it with the body of the upstream block.
func upstream(st *rig.Stage, args ...string) (p *rig.Process, block string) {
	p = st.Self(append([]string{"upstream"}, args...)...)
	return p, fmt.Sprintf("url = %q", p.Endpoint)
}

// spec is a gateway: which build, and how it is configured.
type spec struct {
	name string
	// build is the gateway's program; empty means that of the settings.
	build string
	// upstream is the body of the upstream block; rules are further blocks of the team, blocks further
	// ones of the platform.
	upstream, rules, blocks string
	pageSize                int
	// prompts are files by name; with them, there is no upstream.
	prompts map[string]string
	// token is a bearer token, whose user is a member of the team; empty means that everybody may do
	// everything. Guests are tokens of other users.
	token  string
	guests []string
}

func (s spec) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "gateway {\n  listen = \"127.0.0.1:0\"\n  page_size = %d\n}\n"+
		"admin { listen = \"127.0.0.1:0\" }\n", max(s.pageSize, 1))
	members := ""
	if s.token != "" {
		members = fmt.Sprintf("%q", "user:"+s.token)
		b.WriteString("auth {\n")
		for _, token := range append([]string{s.token}, s.guests...) {
			fmt.Fprintf(&b, "  token %q { sha256 = \"%x\" }\n", token, sha256.Sum256([]byte(token)))
		}
		b.WriteString("}\n")
	}
	upstream := s.upstream + "\n    concurrency = 4096\n    timeout = \"60s\""
	if s.prompts != nil {
		upstream = `files = ["*.md"]`
	}
	fmt.Fprintf(&b, "team \"bench\" {\n  members = [%s]\n  upstream \"up\" {\n    %s\n  }\n%s}\n%s\n",
		members, upstream, s.rules, s.blocks)
	return b.String()
}

func (s settings) gateway(st *rig.Stage, of spec) *rig.Gateway {
	command := []string{cmp.Or(of.build, s.promptweir())}
	if s.cores != "" {
		command = append([]string{"taskset", "-c", s.cores}, command...)
	}
	return st.Gateway(of.text(), of.prompts, command...)
}

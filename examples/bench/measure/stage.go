package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// stage starts the processes of a case, and stops them in reverse order.
type stage struct {
	settings

	stops []func()
}

func (st *stage) close() {
	for i := range st.stops {
		st.stops[len(st.stops)-1-i]()
	}
}

// reference starts one of the programs that the gateway is compared with, or a server.
func (st *stage) reference(ctx context.Context, args ...string) (*rig.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := rig.Listen(ctx, self, args...)
	if err == nil {
		st.stops = append(st.stops, func() { _ = p.Stop() })
	}
	return p, err
}

func (st *stage) upstream(ctx context.Context, args ...string) (p *rig.Process, block string, err error) {
	p, err = st.reference(ctx, append([]string{"upstream"}, args...)...)
	if err != nil {
		return nil, "", err
	}
	return p, fmt.Sprintf("url = %q", p.Endpoint), nil
}

// file writes a file and returns its path. The stage removes it.
func (st *stage) file(name string, content []byte) (string, error) {
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		return "", err
	}
	st.stops = append(st.stops, func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, content, 0o600)
}

// spec is a gateway: which build, and how it is configured.
type spec struct {
	name string
	// build is the gateway's program; empty means that of the settings.
	build string
	// upstream is the body of the upstream block; rules are further blocks of the team, blocks further ones of the platform.
	upstream, rules, blocks string
	pageSize                int
	// prompts are files by name; with them, there is no upstream.
	prompts map[string]string
	// token is a bearer token, whose user is a member of the team; empty means that everybody may do everything. Guests are tokens of
	// other users.
	token  string
	guests []string
	// environment has further variables.
	environment []string
}

func (s spec) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "gateway {\n  listen = \"127.0.0.1:0\"\n  page_size = %d\n}\nadmin { listen = \"127.0.0.1:0\" }\n", max(s.pageSize, 1))
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
	fmt.Fprintf(&b, "team \"bench\" {\n  members = [%s]\n  upstream \"up\" {\n    %s\n  }\n%s}\n%s\n", members, upstream, s.rules, s.blocks)
	return b.String()
}

func (st *stage) gateway(ctx context.Context, s spec) (*rig.Gateway, error) {
	command := []string{s.build}
	if s.build == "" {
		command[0] = st.promptweir()
	}
	if len(s.environment) > 0 {
		command = append(append([]string{"env"}, s.environment...), command...)
	}
	if st.cores != "" {
		command = append([]string{"taskset", "-c", st.cores}, command...)
	}
	g, err := rig.StartGateway(ctx, s.text(), s.prompts, command...)
	if err == nil {
		st.stops = append(st.stops, g.Stop)
	}
	return g, err
}

package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/examples/internal/proctest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// skillSettings serve skills on pages of one.
const skillSettings = `
gateway {
  listen      = "127.0.0.1:0"
  page_size   = 1
  cursor_keys = ["8Wn3pCEfUHUbHW0HcqTUyXBSPS4xhJ5pvmaFUCf2qtM="]
}
admin { listen = "127.0.0.1:0" }
team "docs" {
  %s
}
`

// skillUpstreams are the folder "skills" as the gateway reads it, and as the TypeScript SDK's server does.
const (
	filesUpstream = `upstream "files" {
    files  = ["skills/**/SKILL.md"]
    skills = "only"
  }
  `
	serverUpstream = `upstream "sdk" {
    command = ["node", %q, "skills"]
    skills  = true
  }`
)

// skillFiles are a plain skill, and one with another inside, a picture and a name that URIs encode.
var skillFiles = map[string]string{ //nolint:gochecknoglobals // a constant table
	"plain/notes/a.txt": "A note.\n",
	"plain/SKILL.md":    "---\nname: plain\ndescription: A plain skill\n---\nDo it.\n",
	"refunds/SKILL.md": "---\nname: refunds\ndescription: Process refunds\nlicense: MIT\nmetadata: {version: \"1.10\"}\n---\n" +
		"See [the guide](references/a guide.md).\n",
	"refunds/references/a guide.md": "A guide.\n",
	"refunds/logo.png":              "\x89PNG\r\n\x1a\n\xff",
}

// newSkilled writes the configuration with upstreams and returns the program, and its folder.
func newSkilled(t *testing.T, upstreams string) (program, folder string) {
	t.Helper()
	folder = t.TempDir()
	program = filepath.Join(t.TempDir(), "promptweir")
	proctest.Build(t, filepath.Dir(program), "./cmd/promptweir")
	files := map[string]string{"gateway.hcl": fmt.Sprintf(skillSettings, upstreams)}
	for name, text := range skillFiles {
		files["skills/"+name] = text
	}
	for name, text := range files {
		writeSettings(t, filepath.Join(folder, name), text)
	}
	return program, folder
}

// skillServer is the block of the TypeScript SDK's server.
func skillServer(t *testing.T) string {
	t.Helper()
	server, err := filepath.Abs("skills_server.mjs")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(serverUpstream, server)
}

// startSkilled runs a gateway, and returns its endpoint once it has so many skills.
func startSkilled(t *testing.T, program, folder string, skills int) string {
	t.Helper()
	endpoint := proctest.Start(t, folder, program, "serve", "--config", "gateway.hcl").Attr(t, "endpoint")
	upstreamtest.Eventually(t, "the skills are listed", func() bool {
		out, err := proctest.Output(t.Context(), program, "list", "--skills", "--url", endpoint)
		return err == nil && strings.Count(out, "/SKILL.md") == skills
	})
	return endpoint
}

// TestSkills_HostsVerifyWhatTheyRead runs the SkillsClient of the TypeScript SDK, which verifies all that it reads, over HTTP, over
// stdio, and through a load balancer that sends each request to the next of three replicas; and the Inspector's check of skills.
func TestSkills_HostsVerifyWhatTheyRead(t *testing.T) {
	t.Parallel()
	program, folder := newSkilled(t, filesUpstream+skillServer(t))
	endpoint := startSkilled(t, program, folder, 4)
	replicas := balanced(t, endpoint, startSkilled(t, program, folder, 4), startSkilled(t, program, folder, 4))
	// Over stdio without the server, which may take longer to start than a client's first list waits.
	program, alone := newSkilled(t, filesUpstream)
	type seen struct {
		Revision          string
		Verified, Folders []string
		Unknown           int
	}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for name, target := range map[string][]string{
			"http": {endpoint}, "replicas": {replicas}, "stdio": {program, "stdio", "--config", filepath.Join(alone, "gateway.hcl")},
		} {
			t.Run(revision+" "+name, func(t *testing.T) {
				out, err := runNode(t, patience, append([]string{"skills.mjs", revision}, target...)...)
				var got seen
				if err == nil {
					err = json.Unmarshal([]byte(out), &got)
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				slices.Sort(got.Verified)
				want := seen{Revision: revision, Unknown: -32602} // the client knows it by this code in both revisions
				for _, upstream := range []string{"files", "sdk"} {
					if upstream == "sdk" && name == "stdio" {
						continue
					}
					for file := range skillFiles {
						want.Verified = append(want.Verified, "skill://"+upstream+"/"+strings.ReplaceAll(file, " ", "%20"))
					}
					want.Folders = append(want.Folders, "skill://"+upstream+"/plain/notes", "skill://"+upstream+"/refunds/references")
				}
				slices.Sort(want.Verified)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
	for _, era := range []string{"legacy", "modern"} {
		t.Run("inspector "+era, func(t *testing.T) {
			takesLong(t)
			out, err := runNode(t, patience, installed(t, "mcp-inspector"), "--cli", endpoint, "--transport", "http", "--protocol-era", era,
				"--method", "skills/list", "--verify", "--require-digests")
			if err != nil || strings.Count(out, "/plain/SKILL.md") < 2 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// balanced returns the endpoint of a load balancer, which sends each request to the next endpoint.
func balanced(t *testing.T, endpoints ...string) string {
	t.Helper()
	var requests atomic.Int64
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		target, _ := url.Parse(endpoints[int(requests.Add(1))%len(endpoints)]) // it was printed by a gateway
		r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host})
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/mcp"
}

// TestConformance_Skills runs the official suite's scenarios of the Skills extension against the gateway in front of files, and of the
// TypeScript SDK's server. The warnings are of metadata in resources/list, in which the gateway lists no skills.
func TestConformance_Skills(t *testing.T) {
	t.Parallel()
	for name, upstream := range map[string]string{"files": filesUpstream, "server": skillServer(t)} {
		program, folder := newSkilled(t, upstream)
		endpoint := startSkilled(t, program, folder, 2)
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			for scenario, untested := range map[string]int{"enumeration": 0, "directory": 0, "manifest": 2} {
				t.Run(name+" "+revision+" "+scenario, func(t *testing.T) {
					if revision != "2026-07-28" {
						takesLong(t)
					}
					results := t.TempDir()
					out, err := runNode(t, suiteBound, installed(t, "conformance"), "server", "--url", endpoint,
						"--scenario", "sep-2640-skills-"+scenario, "--spec-version", revision, "--force", "--output-dir", results)
					if err != nil {
						t.Errorf("%v\n%s", err, out)
					}
					found, counts := readResults(t, results)["sep-2640-skills-"+scenario], map[string]int{}
					for _, check := range found.checks {
						counts[check.Status]++
					}
					if counts["FAILURE"] > 0 || counts["WARNING"] != untested || counts["SUCCESS"] < 4 {
						t.Errorf("%v\n%s", counts, found)
					}
				})
			}
		}
	}
}

// TestConformance_HostileSkillServers puts the suite's hostile servers of skills behind the gateway, and reads all through it. That
// no file is read before it is asked for, and that a SKILL.md with other bytes, another size or another front matter than its entry
// never reaches the client, is what the suite and the client's report show. Reads of files that no entry lists, which the published
// package has no scenario for, are refused without asking the server: see TestSkills_AreListedGotAndReadInBothEras in package gateway.
func TestConformance_HostileSkillServers(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "promptweir")
	proctest.Build(t, filepath.Dir(program), "./cmd/promptweir")
	command := "sh " + filepath.Join("conformance", "client.sh") + " " + program
	for _, scenario := range []string{"no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			results := t.TempDir()
			out, err := runNode(t, suiteBound, installed(t, "conformance"), "client", "--command", command,
				"--scenario", "sep-2640-client-"+scenario, "--output-dir", results)
			found := readResults(t, results)["sep-2640-client-"+scenario]
			if err != nil || !found.passed() {
				t.Fatalf("%v\n%s\n%s", err, found, out)
			}
			if isListed := strings.Contains(found.client, "pdf-processing"); !isListed {
				t.Errorf("the skill is not listed: %s", found.client)
			}
			if isRefused := strings.Contains(found.client, "the skill's entry: list the skills again"); isRefused != (scenario != "no-prefetch") {
				t.Errorf("the client sees %s", found.client)
			}
		})
	}
}

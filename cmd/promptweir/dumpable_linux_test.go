package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// unprivileged is the user ID 65534, which has no rights on all Linux distributions.
const unprivileged = 65534

// Root may read everything, so the gateway runs as another user.
func TestServe_KeepsItsMemoryFromItsChildren(t *testing.T) {
	folder := configure(t, map[string]string{})
	// Other users can enter this folder, unlike the test binary's.
	public := copyOf(t, program(t, "promptweir"))
	team := "team \"a\" {\n  upstream \"spy\" { command = [\"" + filepath.Join(public, "spy") + "\"] }\n}\n"
	writeFile(t, folder, "team.hcl", team)
	p := startGateway(t, filepath.Join(public, "promptweir"), folder, func(p *gatewayProcess) {
		p.Env = append(p.Env, "TMPDIR="+public)
		if os.Getuid() != 0 {
			return
		}
		p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivileged, Gid: unprivileged}}
		p.Dir = public
		command(t, "chown", "-R", fmt.Sprintf("%d:%d", unprivileged, unprivileged), folder)
	})
	eventually(t, "the child has spied", func() bool { return strings.Contains(p.logged(), "spied on all") })
	upstreamtest.Equal(t, 4, strings.Count(p.logged(), "permission denied"), "files that are refused to the child:\n%s", p.logged())
}

// copyOf copies the test binary to a public folder under the names of the gateway and of the spy.
func copyOf(t *testing.T, binary string) string {
	t.Helper()
	folder := t.TempDir()
	for _, path := range []string{folder, filepath.Dir(folder)} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, "install", "-m", "755", binary, filepath.Join(folder, "promptweir"))
	if err := os.Link(filepath.Join(folder, "promptweir"), filepath.Join(folder, "spy")); err != nil {
		t.Fatal(err)
	}
	return folder
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if said, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, said)
	}
}

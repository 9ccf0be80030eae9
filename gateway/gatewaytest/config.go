package gatewaytest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Load reads a configuration as the command line does. In the text, %KEY% stands for a cursor key.
func Load(tb testing.TB, text string) *config.Config {
	tb.Helper()
	return LoadLocked(tb, text, nil)
}

// LoadLocked reads a configuration with a lock file beside it.
func LoadLocked(tb testing.TB, text string, lock config.Lock) *config.Config {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "gateway.hcl")
	if lock != nil {
		if err := os.WriteFile(config.LockPath(path), lock.Format(), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return upstreamtest.Load(tb, path, text)
}

// Team returns a team block with an upstream for each peer, and with more as the rest of its text.
func Team(name, members, more string, peers ...*Peer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "team %q {\n  members = [%s]\n", name, members)
	for _, p := range peers {
		settings := p.Settings
		if !strings.Contains(settings, "timeout") {
			settings += "\n    timeout = \"5s\""
		}
		fmt.Fprintf(&b, "  upstream %q {\n    url = %q\n    %s\n  }\n", p.Name, p.URL, settings)
	}
	return b.String() + more + "\n}\n"
}

// Token returns a token block for an auth block. The token itself equals its label.
func Token(label string, groups ...string) string {
	sum := sha256.Sum256([]byte(label))
	quoted, _ := json.Marshal(groups) // strings
	if groups == nil {
		quoted = []byte("[]")
	}
	return fmt.Sprintf("token %q {\n sha256 = %q\n groups = %s\n}\n", label, hex.EncodeToString(sum[:]), quoted)
}

// Expose returns an expose block.
func Expose(label, patterns, to string) string {
	return fmt.Sprintf("expose %q {\n prompts = [%s]\n to = [%s]\n}\n", label, patterns, to)
}

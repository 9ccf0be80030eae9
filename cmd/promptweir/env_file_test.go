package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestEnvFile_IsReadAsItWasWritten(t *testing.T) {
	want, variables := map[string]string{}, map[string]config.Secret{}
	for i, value := range []string{"word", "", "007", "two words", "it's", `"quoted"`, "a$b ${HOME} $(id) `id` !x", "line\nbreak\r", `back\slash's`, "# no comment", "=", "ü\t"} {
		name := "ENV_FILE_TEST_" + string(rune('A'+i))
		t.Setenv(name, "before")
		want[name], variables[name] = value, config.NewSecret(value)
	}
	path := filepath.Join(t.TempDir(), "env")
	if err := writeEnvFile(path, variables); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := writeEnvFile(path, variables); err == nil {
		t.Error("a file that exists is overwritten")
	}
	if err := setEnvironment(path); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name := range want {
		got[name] = os.Getenv(name)
	}
	upstreamtest.Equal(t, want, got, "variables")
}

func TestEnvFile_ErrorsRepeatNoValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	for _, content := range []string{"hunter2 is no line\n", "A='hunter2\n", "A=\"hunter2\n", "=hunter2\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := setEnvironment(path); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "NAME=VALUE") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// Commands that start servers take the variables from a file.
func TestEnvFile_IsReadByCommandsThatServe(t *testing.T) {
	folder, url := t.TempDir(), serveOverHTTP(t, newGreeter())
	writeFile(t, folder, "env", "ENV_FILE_TEST_ONLY=hunter2\n")
	writeFile(t, folder, "mcp.json", fmt.Sprintf(`{"mcpServers": {"web": {"url": %q, "headers": {"X-Key": "${ENV_FILE_TEST_ONLY}"}}}}`, url))
	file, config := filepath.Join(folder, "env"), configure(t, map[string]string{"team.hcl": fmt.Sprintf(`team "eng" {
  upstream "web" {
    url     = %q
    headers = { X-Key = env("ENV_FILE_TEST_ONLY") }
  }
}`, url)})
	for _, p := range []*gatewayProcess{
		serveWith(t, []string{"--env-file", file}, config), tries(t, folder, "mcp.json", "--yes", "--env-file", file),
	} {
		const want = "web.hello web.pid web.slow web.wip_bye"
		eventually(t, "the list is "+want, func() bool { return p.list(t, "").names() == want })
	}
}

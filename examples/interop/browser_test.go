package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/examples/internal/proctest"
)

// TestAdminPage_ShowsProblems opens the admin page of a gateway with an upstream that is down and a reload that was refused.
func TestAdminPage_ShowsProblems(t *testing.T) {
	t.Parallel()
	takesLong(t)
	file := configure(t, 2, newServer(t, false).upstream(), fmt.Sprintf("upstream \"gone\" { url = \"http://%s/mcp\" }", unused(t)))
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	gateway := proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file)
	waitUntilListed(t, gateway.Attr(t, "endpoint"), []string{"sessions.greet"})
	admin := gateway.Attr(t, "admin")
	spoil(t, file, admin)

	dom := browse(t, admin+"/")
	for _, want := range []string{
		"<title>Upstream gone is down – promptweir</title>", "Also: the last configuration was refused.",
		"<li><bdi>" + file + ":", "does not exist", "urll",
	} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	var got []string
	upstreams := browse(t, admin+"/upstreams")
	for _, row := range regexp.MustCompile(`<h3><bdi>(\w+)</bdi></h3><span class="condition"><span [^>]*></span>([^<]+)</span>`).FindAllStringSubmatch(upstreams, -1) {
		got = append(got, row[1]+" "+row[2])
	}
	if got, want := strings.Join(got, ", "), "gone down, sessions up"; got != want {
		t.Errorf("the upstreams are %q, want %q", got, want)
	}
	if t.Failed() {
		t.Log(dom)
	}
	for _, width := range []int{390, 320} { // a phone, and what WCAG 2.2 wants (1.4.10, Reflow)
		if wide := sideways(t, admin+"/", width); wide != "" {
			t.Errorf("the page scrolls sideways at a width of %d pixels: %s", width, wide)
		}
	}
}

// TestBrowserPage_SaysHowToPointAClientAtTheGateway opens the endpoint, and the root of its host, as a person does.
func TestBrowserPage_SaysHowToPointAClientAtTheGateway(t *testing.T) {
	t.Parallel()
	takesLong(t)
	file := configure(t, 2, newServer(t, false).upstream())
	dir := t.TempDir()
	proctest.Build(t, dir, "./cmd/promptweir")
	gateway := proctest.Start(t, dir, filepath.Join(dir, "promptweir"), "serve", "--config", file)
	endpoint := gateway.Attr(t, "endpoint")
	waitUntilListed(t, endpoint, []string{"sessions.greet"})
	for _, url := range []string{endpoint, strings.TrimSuffix(endpoint, "/mcp") + "/"} {
		dom := browse(t, url)
		for _, want := range []string{
			"<title>promptweir: prompts for MCP clients</title>", `<code id="endpoint">` + endpoint + "</code>", "You need nothing else.",
			"claude mcp add --transport http prompts " + endpoint, `<section id="vscode">`, `<section id="cursor">`, `<section id="inspector">`,
		} {
			if !strings.Contains(dom, want) {
				t.Errorf("%s has no %q:\n%s", url, want, dom)
			}
		}
		if strings.Contains(dom, "greet") || strings.Contains(dom, "sessions") {
			t.Errorf("%s has something of the catalog:\n%s", url, dom)
		}
		for _, width := range []int{390, 320} {
			if wide := sideways(t, url, width); wide != "" {
				t.Errorf("the page scrolls sideways at a width of %d pixels: %s", width, wide)
			}
		}
	}
}

// sideways returns by how much a page is wider than a window of a width, in pixels, and which elements stick out; "" if the
// page fits.
func sideways(t *testing.T, url string, width int) string {
	t.Helper()
	out, err := runNode(t, patience, "width.mjs", browser(t), url, strconv.Itoa(width))
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		Sideways int
		Wide     []string
	}
	if err := json.Unmarshal([]byte(out), &page); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if page.Sideways == 0 && len(page.Wide) == 0 {
		return ""
	}
	return fmt.Sprintf("%d pixels, by %q", page.Sideways, page.Wide)
}

// unused returns an address where nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// spoil puts a mistake into a gateway's configuration and triggers a reload.
func spoil(t *testing.T, file, admin string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("url ="), []byte("urll ="), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admin+"/-/reload", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnprocessableEntity {
		t.Fatalf("a reload of a broken configuration: %s", response.Status)
	}
}

// browse opens a page in a browser and returns the resulting document. The test fails on everything that the browser logs as an
// error, such as a resource that the page's content security policy blocks.
func browse(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := []string{
		"--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir=" + t.TempDir(),
		"--enable-logging=stderr", "--dump-dom", url,
	}
	if os.Getuid() == 0 { // Chromium refuses to run as root with its sandbox
		args = append([]string{"--no-sandbox"}, args...)
	}
	cmd := exec.CommandContext(ctx, browser(t), args...)
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the browser complains: %s", line)
		}
	}
	return string(dom)
}

// browser returns the path of a Chromium.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium is installed: bash .ci/run does that, or apt-get install chromium")
	return ""
}

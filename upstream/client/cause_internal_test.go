package client

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// resetting answers as Go's HTTPS server does to plain HTTP: it closes the connection while the request is unread, so that a reset
// may follow the response.
type resetting struct{}

func (resetting) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.Body.Close()
	body := io.MultiReader(strings.NewReader("Client sent an HTTP request to an HTTPS server.\n"), iotest.ErrReader(syscall.ECONNRESET))
	return &http.Response{StatusCode: http.StatusBadRequest, ContentLength: -1, Body: io.NopCloser(body), Request: r}, nil
}

func TestCauses_ServerOfHTTPSIsKnownByARefusalThatBreaksOff(t *testing.T) {
	t.Parallel()
	_, err := Connect(t.Context(), upstreamtest.HTTP("plain", "http://mcp.example"), Options{Transport: resetting{}})
	if got := CauseOf(err).Kind; got != NeedsTLS {
		t.Errorf("Connect() = %v, explained as %s, want %s", err, got, NeedsTLS)
	}
}

func TestCauses_AreInTheReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	verb := regexp.MustCompile(`%[sd]`)
	for kind, text := range causes {
		shown := verb.ReplaceAllString(text.problem, "…")
		if shown == "…" { // what happened says it all
			continue
		}
		if row := "| " + shown + " | " + text.remedy + " |\n"; !strings.Contains(string(readme), row) {
			t.Errorf("%s: there is no row\n%s", kind, row)
		}
		if text.remedy == "" || strings.HasSuffix(text.remedy, ".") {
			t.Errorf("%s: remedy is %q, want a clause", kind, text.remedy)
		}
	}
}

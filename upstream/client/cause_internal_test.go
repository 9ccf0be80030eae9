package client

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/promptweir/promptweir/config"
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
	upstreamtest.Equal(t, NeedsTLS, CauseOf(err).Kind, "cause of %v", err)
}

// nginxPage is a 400 as nginx 1.22 sends it.
func nginxPage(title string) string {
	body := "<html>\r\n<head><title>400 " + title + "</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n<center>" + title +
		"</center>\r\n<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"
	return fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nServer: nginx/1.22.1\r\nDate: Sun, 22 Nov 2026 12:33:03 GMT\r\nContent-Type: text/html\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
}

// recorded answers each request with the bytes of a response.
type recorded string

func (response recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.Body.Close()
	return http.ReadResponse(bufio.NewReader(strings.NewReader(string(response))), r)
}

func TestCauses_RecordedRefusalsOverTLSAreKnown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		server, response string
		want             Kind
	}{
		{"nginx, plain HTTP", nginxPage("The plain HTTP request was sent to HTTPS port"), NeedsTLS},
		{"nginx, no certificate", nginxPage("No required SSL certificate was sent"), CertificateMissing},
		{"nginx, another certificate", nginxPage("The SSL certificate error"), CertificateRefused},
		{"nginx, another mistake", nginxPage("Request Header Or Cookie Too Large"), RequestRefused},
		{"Go, plain HTTP", "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", NeedsTLS},
		{"Apache, plain HTTP", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n" +
			"<p>Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />\n", NeedsTLS},
	} {
		for _, transport := range []config.Transport{config.StreamableHTTP, config.SSE} {
			u := upstreamtest.HTTP("proxied", "http://mcp.example")
			u.Transport, u.TransportExplicit = transport, true
			_, err := Connect(t.Context(), u, Options{Transport: recorded(test.response)})
			upstreamtest.Equal(t, test.want, CauseOf(err).Kind, "%s over %s: cause of %v", test.server, transport, err)
		}
	}
}

// The README quotes some of them.
func TestCauses_HaveARemedyThatIsAClause(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, quoted, _ := strings.Cut(string(readme), "three of them:\n\n```\n")
	quoted, _, _ = strings.Cut(quoted, "```")
	source, err := os.ReadFile("cause.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, row := range regexp.MustCompile(`(?m)^\t\w+ += Kind\{"(.*)", "(.*)"\}$`).FindAllStringSubmatch(string(source), -1) {
		problem, remedy := row[1], row[2]
		if remedy == "" || strings.HasSuffix(remedy, ".") {
			t.Errorf("%s: remedy is %q, want a clause", problem, remedy)
		}
		problem = regexp.MustCompile(`\\?%[sd]`).ReplaceAllString(regexp.QuoteMeta(problem), ".*")
		found += len(regexp.MustCompile(`(?m)^`+problem+"; "+regexp.QuoteMeta(remedy)+"$").FindAllString(quoted, -1))
	}
	upstreamtest.Equal(t, 3, found, "the README's causes that are the gateway's:\n%s", quoted)
}

// What a child prints of its secrets is masked wherever a line cuts them off.
func TestChild_MasksSecretsThatLinesCutOff(t *testing.T) {
	mask := config.Upstream{Env: map[string]config.Secret{"KEY": config.NewSecret("hunter2-abcdefghijkl")}}.Mask()
	var output childOutput
	output.addGarbage(mask, []byte("KEY is hunter2-abc\n"))
	upstreamtest.Equal(t, "(sensitive), and more", output.addGarbage(mask, []byte("defghijkl, and more\n")), "the next line")
	upstreamtest.Equal(t, `, after printing "KEY is (sensitive)"`, output.lastWords(), "the end after a stray line")
}

package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// Headers are alternately names and values. The value "-" removes a header.
type Headers []string

// Bearer returns the headers that carry a token, none for "".
func Bearer(token string) Headers {
	if token == "" {
		return nil
	}
	return Headers{"Authorization", "Bearer " + token}
}

// NewRequest returns an HTTP request with the headers that a client of Streamable HTTP sends,
// changed by h. A Host in h becomes the request's host.
func NewRequest(ctx context.Context, tb testing.TB, method, url, body string, h Headers) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(h); i += 2 {
		switch {
		case h[i+1] == "-":
			r.Header.Del(h[i])
		case h[i] == "Host":
			r.Host = h[i+1]
		default:
			r.Header.Set(h[i], h[i+1])
		}
	}
	return r
}

// Send sends a [NewRequest] and reads the response to its end.
func Send(tb testing.TB, method, url, body string, h Headers) Response {
	tb.Helper()
	response, err := http.DefaultClient.Do(NewRequest(tb.Context(), tb, method, url, body, h))
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return Response{response.StatusCode, response.Header, string(got)}
}

// Response is an HTTP response with its whole body.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Want fails the test if the response has another status or lacks one of the parts.
func (r Response) Want(tb testing.TB, status int, parts ...string) {
	tb.Helper()
	if r.Status != status {
		tb.Errorf("status %d, want %d: %s", r.Status, status, r.Body)
	}
	for _, part := range parts {
		if !strings.Contains(r.Body, part) {
			tb.Errorf("got %s\nwant %s in it", r.Body, part)
		}
	}
}

// Result returns a member of the JSON-RPC result.
func (r Response) Result(tb testing.TB, member string) json.RawMessage {
	tb.Helper()
	var message struct {
		Result map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(r.Body), &message); err != nil || message.Result == nil {
		tb.Fatalf("no result: status %d, %s", r.Status, r.Body)
	}
	return message.Result[member]
}

// Names returns the names of the prompts on a page.
func (r Response) Names(tb testing.TB) []string {
	tb.Helper()
	var prompts []struct{ Name string }
	if err := json.Unmarshal(r.Result(tb, "prompts"), &prompts); err != nil {
		tb.Fatalf("no prompts: %s", r.Body)
	}
	names := []string{}
	for _, p := range prompts {
		names = append(names, p.Name)
	}
	return names
}

// RequestState returns the requestState of a result that requires input.
func (r Response) RequestState(tb testing.TB) string {
	tb.Helper()
	var state string
	if err := json.Unmarshal(r.Result(tb, "requestState"), &state); err != nil {
		tb.Fatalf("no requestState: %s", r.Body)
	}
	return state
}

// InputResponses returns the inputResponses of a retry that gives the same reply to each request
// for input.
func (r Response) InputResponses(tb testing.TB, reply string) string {
	tb.Helper()
	var requests map[string]struct{ Method string }
	if err := json.Unmarshal(r.Result(tb, "inputRequests"), &requests); err != nil {
		tb.Fatalf("no inputRequests: %s", r.Body)
	}
	responses := map[string]json.RawMessage{}
	for key := range requests {
		responses[key] = json.RawMessage(reply)
	}
	text, err := json.Marshal(responses)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// Dump returns the status, the headers and the body, without the date: all by which a client could
// tell two responses apart.
func (r Response) Dump() string {
	header := r.Header.Clone()
	header.Del("Date")
	var b bytes.Buffer
	fmt.Fprintln(&b, r.Status)
	_ = header.Write(&b) // a buffer
	return b.String() + r.Body
}

// CheckSchema fails the test if a message violates the JSON schema of a revision. Method is that of
// the request which the message answers, if it is a response.
func CheckSchema(tb testing.TB, revision, method, message string) {
	tb.Helper()
	if err := upstreamtest.Violation(revision, method, []byte(message)); err != nil {
		tb.Error(err)
	}
}

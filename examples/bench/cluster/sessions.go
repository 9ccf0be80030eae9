//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// soon is when what one replica does has reached the others.
const soon = 50 * time.Millisecond

// attempts is how often something is tried: often enough to meet each replica first, and each other one next.
const attempts = 18

func checkPages(ctx context.Context, w *world, _ *settings) (string, error) {
	for range attempts {
		names, err := w.walk(ctx, false)
		if err != nil {
			return "", err
		}
		if err := complete(names); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d lists of %d prompts, each page by the next replica", attempts, prompts+4), nil
}

// complete returns an error if a list lacks one of the prompts that are always there.
func complete(names map[string]bool) error {
	for name := range names {
		if _, _, ok := markOf(name); ok {
			delete(names, name)
		}
	}
	if want := prompts + 4; len(names) != want {
		return fmt.Errorf("a list has %d prompts, want %d", len(names), want)
	}
	return nil
}

// checkDelete ends sessions at one replica, and asks each of them afterwards.
func checkDelete(ctx context.Context, w *world, _ *settings) (string, error) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for range attempts {
		s, err := w.open(ctx)
		if err != nil {
			return "", err
		}
		for range replicas {
			if status, err := s.status(ctx, http.MethodPost, ping); err != nil || status != http.StatusOK {
				return "", fmt.Errorf("a session at another replica: HTTP %d, %w", status, err)
			}
		}
		if status, err := s.status(ctx, http.MethodDelete, ""); err != nil || status != http.StatusNoContent {
			return "", fmt.Errorf("DELETE: HTTP %d, %w", status, err)
		}
		time.Sleep(soon)
		for range replicas {
			if status, err := s.status(ctx, http.MethodPost, ping); err != nil || status != http.StatusNotFound {
				return "", fmt.Errorf("a session that was ended %v ago: HTTP %d, %w", soon, status, err)
			}
		}
	}
	return fmt.Sprintf("%d sessions, which had ended at all replicas %v later", attempts, soon), nil
}

const accepted = `{"action":"accept","content":{"name":"somebody"}}`

// slowest keeps the longest of some times.
type slowest time.Duration

func (s *slowest) since(began time.Time) { *s = max(*s, slowest(time.Since(began))) }

func (s *slowest) String() string { return time.Duration(*s).Round(100 * time.Microsecond).String() }

// checkLegacyReplies replies to elicitations of a client of 2025-11-25, each by another request.
func checkLegacyReplies(ctx context.Context, w *world, _ *settings) (string, error) {
	var longest slowest
	for i := range attempts {
		s, err := w.open(ctx)
		if err != nil {
			return "", err
		}
		response, events, id, err := s.getAsking(ctx, i)
		if err != nil {
			return "", err
		}
		began := time.Now()
		status, err := s.status(ctx, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, accepted))
		if err != nil || status != http.StatusAccepted {
			return "", fmt.Errorf("a reply: HTTP %d, %w", status, err)
		}
		m, err := nextWithin(events, response)
		if err != nil || !strings.Contains(string(m.Result), "somebody") {
			return "", fmt.Errorf("the result of a get with a reply: %+v, %w", m, err)
		}
		longest.since(began)
		response.Body.Close()
	}
	return fmt.Sprintf("%d replies, each answered after %v at most", attempts, &longest), nil
}

// nextWithin returns the next message of a response, which must come soon.
func nextWithin(events *stream, response *http.Response) (*message, error) {
	overdue := time.AfterFunc(patience, func() { response.Body.Close() })
	defer overdue.Stop()
	return events.next()
}

// checkModernReplies repeats gets of the modern era with replies.
func checkModernReplies(ctx context.Context, w *world, _ *settings) (string, error) {
	var longest slowest
	for range attempts {
		result, err := w.call(ctx, "prompts/get", `{"name":"ask.ask"}`)
		if err != nil {
			return "", err
		}
		var asked struct {
			RequestState  string
			InputRequests map[string]json.RawMessage
		}
		if err := json.Unmarshal(result, &asked); err != nil || len(asked.InputRequests) != 1 {
			return "", fmt.Errorf("a get that requires input: %s, %w", result, err)
		}
		responses := map[string]json.RawMessage{}
		for key := range asked.InputRequests {
			responses[key] = json.RawMessage(accepted)
		}
		text, err := json.Marshal(responses)
		if err != nil {
			return "", err
		}
		began := time.Now()
		result, err = w.call(ctx, "prompts/get", fmt.Sprintf(`{"name":"ask.ask","requestState":%q,"inputResponses":%s}`, asked.RequestState, text))
		if err != nil || !strings.Contains(string(result), "somebody") {
			return "", fmt.Errorf("a get that is repeated with a reply: %s, %w", result, err)
		}
		longest.since(began)
	}
	return fmt.Sprintf("%d gets repeated with replies, each answered after %v at most", attempts, &longest), nil
}

// checkPosts speaks HTTP+SSE: each message to another replica than the stream's.
func checkPosts(ctx context.Context, w *world, _ *settings) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := w.send(ctx, http.MethodGet, w.url+"/sse", "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	events := readStream(response)
	endpoint, err := events.data()
	if err != nil {
		return "", err
	}
	var longest slowest
	exchange := func(body, want string) error {
		began := time.Now()
		posted, err := w.send(ctx, http.MethodPost, w.url+endpoint, body)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, posted.Body) // it is empty
		posted.Body.Close()
		if posted.StatusCode != http.StatusAccepted {
			return fmt.Errorf("a post: HTTP %d", posted.StatusCode)
		}
		m, err := nextWithin(events, response)
		if err == nil && string(m.ID) != want {
			err = fmt.Errorf("got the message %+v, want one with the id %s", m, want)
		}
		longest.since(began)
		return err
	}
	if err := exchange(initialize, "0"); err != nil {
		return "", err
	}
	for i := range attempts {
		if err := exchange(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"prompts/list"}`, i+1), strconv.Itoa(i+1)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d posts, each answered on the stream after %v at most", attempts+1, &longest), nil
}

// checkCancel cancels gets, each by another request.
func checkCancel(ctx context.Context, w *world, _ *settings) (string, error) {
	before := w.asking.abandoned.Load()
	for i := range attempts {
		s, err := w.open(ctx)
		if err != nil {
			return "", err
		}
		response, _, _, err := s.getAsking(ctx, i)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i)
		if status, err := s.status(ctx, http.MethodPost, body); err != nil || status != http.StatusAccepted {
			return "", fmt.Errorf("a cancellation: HTTP %d, %w", status, err)
		}
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if w.asking.abandoned.Load()-before == attempts {
			return fmt.Sprintf("%d gets cancelled, all ended at the server", attempts), nil
		}
	}
	return "", fmt.Errorf("%d of %d cancelled gets ended at the server", w.asking.abandoned.Load()-before, attempts)
}

// inUse reports whether the last line of a log about the store says that it is in use.
func inUse(log string) bool {
	return strings.LastIndex(log, "store in use") > strings.LastIndex(log, "store away")
}

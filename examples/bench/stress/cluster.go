package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
	"github.com/promptweir/promptweir/upstream/wire"
)

// check is one promise of several replicas: run says in a sentence what was seen, or returns an error.
type check struct {
	name string
	run  func(ctx context.Context, w *world, s *settings) (seen string, err error)
}

func checks() []check {
	return append([]check{
		{"pages", checkPages},
		{"rate", checkRate},
		{"concurrency", checkConcurrency},
		{"end of sessions", checkDelete},
		{"replies, legacy", checkLegacyReplies},
		{"replies, modern", checkModernReplies},
		{"posts of HTTP+SSE", checkPosts},
		{"cancellation", checkCancel},
		{"streams", checkStreams},
		{"streams resumed", checkResume},
		{"rolling restart", checkRollingRestart},
		{"rolling change", checkRollingChange},
		{"replicas are killed", checkKilledReplicas},
	}, outages()...)
}

// runCluster runs three gateways with one store behind HAProxy, and prints a row for each check.
func runCluster(ctx context.Context, s *settings) error {
	w, err := newWorld(ctx, s, false)
	defer w.close()
	if err != nil {
		return err
	}
	fmt.Print("| check | took | seen |\n| --- | --- | --- |\n")
	var broken []error
	for _, c := range checks() {
		if !s.only.MatchString(c.name) || ctx.Err() != nil {
			continue
		}
		if err := w.awaitStore(); err != nil { // which a check before this one may have kept from answering in time
			return err
		}
		began := time.Now()
		seen, err := c.run(ctx, w, s)
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", c.name, err))
			seen = fmt.Sprintf("**not kept: %s** %s", strings.ReplaceAll(err.Error(), "\n", "; "), seen)
			w.writeLogs()
		}
		fmt.Printf("| %s | %.0f s | %s |\n", c.name, time.Since(began).Seconds(), seen)
	}
	return errors.Join(broken...)
}

const (
	// soon is when what one replica does has reached the others.
	soon = 50 * time.Millisecond
	// attempts is how often something is tried: often enough to meet each replica first, and each other one next.
	attempts = 18
)

func checkPages(ctx context.Context, w *world, _ *settings) (string, error) {
	for range attempts {
		names, err := w.client.Walk(ctx, 0)
		if err != nil {
			return "", err
		}
		if _, _, err := marks(names); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d lists of %d prompts, each page by the next replica", attempts, prompts+4), nil
}

func (w *world) open(ctx context.Context) (*rig.Client, error) {
	c := w.client
	c.Legacy = true
	return &c, c.Initialize(ctx)
}

// want returns an error unless a message, or a DELETE without one, is answered with a status.
func want(ctx context.Context, c *rig.Client, method, body string, status int) error {
	got, err := c.Status(ctx, method, body)
	if err == nil && got != status {
		err = fmt.Errorf("%s %s: HTTP %d, want %d", method, body, got, status)
	}
	return err
}

// checkDelete ends sessions at one replica, and asks each of them afterwards.
func checkDelete(ctx context.Context, w *world, _ *settings) (string, error) {
	ping := rig.Body(1, wire.Ping, "")
	for range attempts {
		c, err := w.open(ctx)
		if err != nil {
			return "", err
		}
		for range replicas {
			err = errors.Join(err, want(ctx, c, http.MethodPost, ping, http.StatusOK))
		}
		err = errors.Join(err, want(ctx, c, http.MethodDelete, "", http.StatusNoContent))
		time.Sleep(soon)
		for range replicas {
			err = errors.Join(err, want(ctx, c, http.MethodPost, ping, http.StatusNotFound))
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d sessions, which had ended at all replicas %v later", attempts, soon), nil
}

const accepted = `{"action":"accept","content":{"name":"somebody"}}`

func getAsking(ctx context.Context, c *rig.Client, id int) (*http.Response, *rig.Stream, json.RawMessage, error) {
	response, err := c.Message(ctx, rig.Body(id, wire.PromptsGet, `"name":"ask.ask"`))
	if err != nil {
		return nil, nil, nil, err
	}
	events := rig.Events(response.Body)
	m, err := events.Next()
	if err == nil && m.Method != "elicitation/create" {
		err = fmt.Errorf("the first message of a get is no elicitation: %+v", m)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, response.Body.Close())
	}
	return response, events, m.ID, nil
}

func nextWithin(events *rig.Stream, response *http.Response) (*rig.Message, error) {
	overdue := time.AfterFunc(timeout, func() { _ = response.Body.Close() })
	defer overdue.Stop()
	return events.Next()
}

// slowest runs something a number of times, and says how long it took at most.
func slowest(times int, what string, run func(i int) (time.Duration, error)) (string, error) {
	var longest time.Duration
	for i := range times {
		took, err := run(i)
		if err != nil {
			return "", err
		}
		longest = max(longest, took)
	}
	return fmt.Sprintf("%d %s after %s at most", times, what, rig.Milliseconds(longest)), nil
}

// checkLegacyReplies replies to elicitations of a client of 2025-11-25, each by another request.
func checkLegacyReplies(ctx context.Context, w *world, _ *settings) (string, error) {
	return slowest(attempts, "replies, each answered", func(i int) (time.Duration, error) {
		c, err := w.open(ctx)
		if err != nil {
			return 0, err
		}
		response, events, id, err := getAsking(ctx, c, i)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		began := time.Now()
		if err := want(ctx, c, http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, accepted), http.StatusAccepted); err != nil {
			return 0, err
		}
		m, err := nextWithin(events, response)
		if err == nil && !strings.Contains(string(m.Result), "somebody") {
			err = fmt.Errorf("the result of a get with a reply: %+v", m)
		}
		return time.Since(began), err
	})
}

// checkModernReplies repeats gets of the modern era with replies.
func checkModernReplies(ctx context.Context, w *world, _ *settings) (string, error) {
	return slowest(attempts, "gets repeated with replies, each answered", func(int) (time.Duration, error) {
		result, err := w.client.Call(ctx, wire.PromptsGet, `"name":"ask.ask"`)
		if err != nil {
			return 0, err
		}
		var asked struct {
			RequestState  string
			InputRequests map[string]json.RawMessage
		}
		if err := json.Unmarshal(result, &asked); err != nil || len(asked.InputRequests) != 1 {
			return 0, fmt.Errorf("a get that requires input: %s, %w", result, err)
		}
		replies := map[string]json.RawMessage{}
		for key := range asked.InputRequests {
			replies[key] = json.RawMessage(accepted)
		}
		text, err := json.Marshal(replies)
		if err != nil {
			return 0, err
		}
		params := fmt.Sprintf(`"name":"ask.ask","requestState":%q,"inputResponses":%s`, asked.RequestState, text)
		began := time.Now()
		result, err = w.client.Call(ctx, wire.PromptsGet, params)
		if err == nil && !strings.Contains(string(result), "somebody") {
			err = fmt.Errorf("a get that is repeated with a reply: %s", result)
		}
		return time.Since(began), err
	})
}

// checkPosts speaks HTTP+SSE: each message to another replica than the stream's.
func checkPosts(ctx context.Context, w *world, _ *settings) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := w.client.Send(ctx, http.MethodGet, w.endpoint+"/sse", "")
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	events := rig.Events(response.Body)
	endpoint, err := events.Data()
	if err != nil {
		return "", err
	}
	return slowest(attempts+1, "posts, each answered on the stream", func(i int) (time.Duration, error) {
		body := rig.Body(i, wire.PromptsList, "")
		if i == 0 {
			body = rig.Body(0, wire.Initialize, w.client.InitializeParams())
		}
		began := time.Now()
		posted, err := w.client.Send(ctx, http.MethodPost, w.endpoint+endpoint, body)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, posted.Body) // it is empty
		_ = posted.Body.Close()
		if posted.StatusCode != http.StatusAccepted {
			return 0, fmt.Errorf("a post: HTTP %d", posted.StatusCode)
		}
		m, err := nextWithin(events, response)
		if err == nil && string(m.ID) != strconv.Itoa(i) {
			err = fmt.Errorf("got the message %+v, want one with the id %d", m, i)
		}
		return time.Since(began), err
	})
}

// checkCancel cancels gets, each by another request.
func checkCancel(ctx context.Context, w *world, _ *settings) (string, error) {
	before := w.asking.abandoned.Load()
	for i := range attempts {
		c, err := w.open(ctx)
		if err != nil {
			return "", err
		}
		response, _, _, err := getAsking(ctx, c, i)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i)
		if err := want(ctx, c, http.MethodPost, body, http.StatusAccepted); err != nil {
			return "", err
		}
	}
	err := rig.Eventually(timeout, func() error {
		if ended := w.asking.abandoned.Load() - before; ended != attempts {
			return fmt.Errorf("%d of %d cancelled gets ended at the server", ended, attempts)
		}
		return nil
	})
	return fmt.Sprintf("%d gets cancelled, all ended at the server", attempts), err
}

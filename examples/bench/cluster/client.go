//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// message is one of JSON-RPC.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason string `json:"reason"`
		} `json:"data"`
	} `json:"error"`
}

// errLimited means that a limit refuses a request.
var errLimited = errors.New("over the limit")

// answer returns the result of a response, or its error.
func (m *message) answer() (json.RawMessage, error) {
	switch {
	case m.Error == nil:
		return m.Result, nil
	case m.Error.Data.Reason == "rate_limited":
		return nil, errLimited
	}
	return nil, fmt.Errorf("error %d: %s", m.Error.Code, m.Error.Message)
}

// send sends an HTTP request through HAProxy, with headers that are alternately names and values.
func (w *world) send(ctx context.Context, method, target, body string, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w.client.Do(r)
}

// call makes a request of the modern era with params, an object of JSON.
func (w *world) call(ctx context.Context, method, params string) (json.RawMessage, error) {
	response, err := w.request(ctx, method, params)
	if err != nil {
		return nil, err
	}
	return readAnswer(response)
}

// request is call for one whose response is not read yet.
func (w *world) request(ctx context.Context, method, params string) (*http.Response, error) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"rig","version":"1"}}`
	params = strings.TrimSuffix(params, "}")
	if params != "{" {
		params += ","
	}
	params += meta + "}"
	headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if method == "prompts/get" {
		var named struct{ Name string }
		if err := json.Unmarshal([]byte(params), &named); err != nil {
			return nil, err
		}
		headers = append(headers, "Mcp-Name", named.Name)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	return w.send(ctx, http.MethodPost, w.url+"/mcp", body, headers...)
}

// walk lists all pages in the modern era, each by the next replica, and returns the names. If again, a page that fails is asked for again,
// at the next replica, a few times.
func (w *world) walk(ctx context.Context, again bool) (map[string]bool, error) {
	names, cursor := map[string]bool{}, ""
	for {
		result, err := w.call(ctx, "prompts/list", "{"+cursor+"}")
		for tries := 0; err != nil && again && tries < 3; tries++ {
			time.Sleep(pauseRefused)
			result, err = w.call(ctx, "prompts/list", "{"+cursor+"}")
		}
		if err != nil {
			return nil, err
		}
		var page struct {
			Prompts    []struct{ Name string }
			NextCursor string
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, err
		}
		for _, p := range page.Prompts {
			if names[p.Name] {
				return nil, fmt.Errorf("%s is on two pages", p.Name)
			}
			names[p.Name] = true
		}
		if page.NextCursor == "" {
			return names, nil
		}
		cursor = fmt.Sprintf(`"cursor":%q`, page.NextCursor)
	}
}

// get gets a prompt in the modern era.
func (w *world) get(ctx context.Context, name string) error {
	_, err := w.call(ctx, "prompts/get", fmt.Sprintf(`{"name":%q,"arguments":{"code":"x"}}`, name))
	return err
}

// readAnswer reads the response to one request, as JSON or as the last event of a stream.
func readAnswer(response *http.Response) (json.RawMessage, error) {
	defer response.Body.Close()
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		s := readStream(response)
		for {
			m, err := s.next()
			if err != nil {
				return nil, err
			}
			if m.Method == "" {
				return m.answer()
			}
		}
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("HTTP %s: %.200s", response.Status, body)
	}
	return m.answer()
}

// stream reads events whose data are messages.
type stream struct {
	lines *bufio.Reader
	// id is that of the last event.
	id string
}

func readStream(response *http.Response) *stream {
	return &stream{lines: bufio.NewReader(response.Body)}
}

// data returns that of the next event, which may be empty.
func (s *stream) data() (string, error) {
	id := s.id
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimRight(line, "\r\n")
		if next, ok := strings.CutPrefix(line, "id: "); ok {
			id = next
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			s.id = id
			return data, nil
		}
	}
}

// next returns the next message.
func (s *stream) next() (*message, error) {
	for {
		data, err := s.data()
		if err != nil {
			return nil, err
		}
		if data == "" {
			continue // the event only has an id
		}
		var m message
		return &m, json.Unmarshal([]byte(data), &m)
	}
}

// session is a client of 2025-11-25 over Streamable HTTP.
type session struct {
	*world

	headers []string
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{"elicitation":{}},"clientInfo":{"name":"rig","version":"1"}}}`

func (w *world) open(ctx context.Context) (*session, error) {
	response, err := w.send(ctx, http.MethodPost, w.url+"/mcp", initialize)
	if err != nil {
		return nil, err
	}
	s := &session{w, []string{"Mcp-Session-Id", response.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}}
	_, err = readAnswer(response)
	return s, err
}

// post sends a message and returns the response.
func (s *session) post(ctx context.Context, body string) (*http.Response, error) {
	return s.send(ctx, http.MethodPost, s.url+"/mcp", body, s.headers...)
}

// status sends a message, or a DELETE without one, and returns the status of the response.
func (s *session) status(ctx context.Context, method, body string) (int, error) {
	response, err := s.send(ctx, method, s.url+"/mcp", body, s.headers...)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// getAsking begins a get of ask.ask, and returns its stream with the id of the elicitation.
func (s *session) getAsking(ctx context.Context, id int) (*http.Response, *stream, json.RawMessage, error) {
	response, err := s.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"prompts/get","params":{"name":"ask.ask"}}`, id))
	if err != nil {
		return nil, nil, nil, err
	}
	events := readStream(response)
	m, err := events.next()
	if err == nil && m.Method != "elicitation/create" {
		err = fmt.Errorf("the first message of a get is no elicitation: %+v", m)
	}
	if err != nil {
		response.Body.Close()
		return nil, nil, nil, err
	}
	return response, events, m.ID, nil
}

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
)

// askingServer is an MCP server of 2025-11-25 whose prompt "ask" sends an elicitation during the get; the result has the reply.
type askingServer struct {
	*httptest.Server

	// abandoned counts gets that the gateway gave up: it closes their streams, or says so in place of a reply.
	abandoned atomic.Int32
	asked     atomic.Int64

	mu      sync.Mutex // guards replies
	replies map[string]chan json.RawMessage
}

func newAskingServer() *askingServer {
	s := &askingServer{replies: map[string]chan json.RawMessage{}}
	s.Server = httptest.NewServer(s)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *askingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "session")
		s.respond(w, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"prompts":{}},"serverInfo":{"name":"asking","version":"1"}}`)
	case "prompts/list":
		s.respond(w, m.ID, `{"prompts":[{"name":"ask"}]}`)
	case "prompts/get":
		s.get(w, r, m.ID)
	case "":
		s.reply(&m)
		w.WriteHeader(http.StatusAccepted)
	case "ping":
		s.respond(w, m.ID, `{}`)
	case "server/discover":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *askingServer) respond(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (s *askingServer) get(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
	name, reply := fmt.Sprint("q", s.asked.Add(1)), make(chan json.RawMessage, 1)
	s.mu.Lock()
	s.replies[name] = reply
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%q,\"method\":\"elicitation/create\",\"params\":{\"message\":\"Who?\","+
		"\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}}}}\n\n", name)
	_ = http.NewResponseController(w).Flush() // an error means that the gateway has gone
	select {
	case result := <-reply:
		if result == nil {
			s.abandoned.Add(1)
			return
		}
		text, _ := json.Marshal(string(result)) // a string
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":%s}}]}}\n\n", id, text)
	case <-r.Context().Done():
		s.abandoned.Add(1)
	}
}

// reply hands a reply to the get that waits for it.
func (s *askingServer) reply(m *message) {
	var name string
	_ = json.Unmarshal(m.ID, &name) // an empty name belongs to none
	s.mu.Lock()
	defer s.mu.Unlock()
	if reply := s.replies[name]; reply != nil {
		delete(s.replies, name)
		reply <- m.Result
	}
}

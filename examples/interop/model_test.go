package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// modelStub is the API of a model, Anthropic's, Google's and OpenAI's: every request gets the answer "ok".
type modelStub struct {
	mu       sync.Mutex
	messages []modelMessage // of the newest request, without those that are the client's own
}

// modelMessage is one part of what a client sends to its model.
type modelMessage struct{ role, text string }

// last returns the last text.
func (s *modelStub) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.messages) == 0 {
		return ""
	}
	return s.messages[len(s.messages)-1].text
}

// parts returns each part on a line, with its role.
func (s *modelStub) parts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, m := range s.messages {
		lines = append(lines, m.role+": "+m.text)
	}
	return strings.Join(lines, "\n")
}

// answers are those to a streaming request, by what its path contains.
var answers = map[string]string{ //nolint:gochecknoglobals // a constant table
	"/v1/messages": `event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

`,
	":streamGenerateContent": `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"ok"}]},"finishReason":"STOP","index":0}]}

`,
	"/responses": `event: response.created
data: {"type":"response.created","response":{"id":"r"}}

event: response.output_item.done
data: {"type":"response.output_item.done","item":{"type":"message","role":"assistant","id":"m","content":[{"type":"output_text","text":"ok"}]}}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}

`,
	"/chat/completions": `data: {"id":"m","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}

data: [DONE]

`,
}

func (s *modelStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var sent struct{ Messages, Contents, Input []json.RawMessage }
	answer := ""
	for path, its := range answers {
		if strings.HasSuffix(r.URL.Path, path) {
			answer = its
		}
	}
	if answer == "" || json.NewDecoder(r.Body).Decode(&sent) != nil {
		http.Error(w, `{"type":"error","error":{"type":"not_found_error","message":"not here"}}`, http.StatusNotFound)
		return
	}
	var messages []modelMessage
	for _, message := range slices.Concat(sent.Messages, sent.Contents, sent.Input) {
		messages = append(messages, readMessage(message)...)
	}
	isTitle := slices.ContainsFunc(messages, func(m modelMessage) bool { return strings.HasPrefix(m.text, "Generate a title") })
	s.mu.Lock()
	if len(messages) > 0 && !isTitle {
		s.messages = messages
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, answer)
}

// readMessage returns the parts of a message that are not the client's own.
func readMessage(raw json.RawMessage) (parts []modelMessage) {
	type part struct{ Type, Text string }
	var message struct {
		Role    string
		Content json.RawMessage
		Parts   []part
	}
	if json.Unmarshal(raw, &message) != nil || message.Role != "user" && message.Role != "assistant" && message.Role != "model" {
		return nil
	}
	var text string
	if json.Unmarshal(message.Content, &text) == nil {
		message.Parts = []part{{"text", text}}
	} else if message.Content != nil {
		_ = json.Unmarshal(message.Content, &message.Parts)
	}
	for _, p := range message.Parts {
		switch {
		case p.Type == "image" || p.Type == "image_url":
			p.Text = "(image)"
		case p.Text == "", strings.HasPrefix(p.Text, "<") && !strings.HasPrefix(p.Text, "<skill>"), strings.HasPrefix(p.Text, "[Image: source:"):
			continue
		}
		parts = append(parts, modelMessage{message.Role, strings.TrimSuffix(p.Text, "\n")})
	}
	return parts
}

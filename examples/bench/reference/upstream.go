package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// upstream is an MCP server of both eras that encodes its results once, at the start.
type upstream struct {
	prompts, size      int
	delay              time.Duration
	workers            int
	legacy, sse, stdio bool

	// working has a value for each get and completion that is being answered; nil without a bound.
	working chan struct{}

	results map[string]string // by method
}

func (u *upstream) flags(flags *flag.FlagSet) {
	flags.IntVar(&u.prompts, "prompts", 10, "number of prompts in the list")
	flags.IntVar(&u.size, "size", 300, "size of a prompt's text in bytes")
	flags.DurationVar(&u.delay, "delay", 0, "delay before the response to a get or a completion")
	flags.IntVar(&u.workers, "workers", 0, "how many gets and completions are answered at a time, the others wait; 0 means no bound")
	flags.BoolVar(&u.legacy, "legacy", false, "speak 2025-11-25 and no later revision")
	flags.BoolVar(&u.sse, "sse", false, "answer gets with an event stream")
	flags.BoolVar(&u.stdio, "stdio", false, "speak over standard input and output")
}

func (u *upstream) prepare() {
	const declared = `"capabilities":{"prompts":{"listChanged":true},"completions":{}},"serverInfo":{"name":"reference","version":"1"}`
	if u.workers > 0 {
		u.working = make(chan struct{}, u.workers)
	}
	prompts := make([]string, u.prompts)
	for i := range prompts {
		prompts[i] = fmt.Sprintf(`{"name":"p%05d","title":"A prompt","description":"What it is for, in as many words as people usually write.","arguments":[`+
			`{"name":"code","description":"The code to review"},{"name":"style","description":"Which style guide to apply"}]}`, i)
	}
	text := strings.Repeat("All work and no play makes a dull prompt. ", u.size/42+1)[:u.size]
	u.results = map[string]string{
		wire.Initialize:  `{"protocolVersion":"2025-11-25",` + declared + `}`,
		wire.Ping:        `{}`,
		wire.PromptsList: `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","prompts":[` + strings.Join(prompts, ",") + `]}`,
		wire.PromptsGet:  `{"resultType":"complete","description":"A prompt","messages":[{"role":"user","content":{"type":"text","text":"` + text + `"}}]}`,
		wire.Complete:    `{"resultType":"complete","completion":{"values":["go","gofumpt","google"]}}`,
	}
	if !u.legacy {
		u.results[wire.Discover] = `{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"public",` + declared + `}`
	}
}

// respond appends the response to a request, after the delay.
func (u *upstream) respond(dst []byte, m wire.Message) []byte {
	if u.delay > 0 && (m.Method == wire.PromptsGet || m.Method == wire.Complete) {
		if u.working != nil {
			u.working <- struct{}{}
			defer func() { <-u.working }()
		}
		time.Sleep(u.delay)
	}
	dst = append(append(append(dst, `{"jsonrpc":"2.0","id":`...), m.ID...), ',')
	result, ok := u.results[m.Method]
	if !ok {
		return append(dst, `"error":{"code":-32601,"message":"Method not found"}}`...)
	}
	dst = append(append(dst, `"result":`...), result...)
	return append(dst, '}')
}

// buffers hold responses.
var buffers = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool

// ServeHTTP implements [http.Handler].
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		hold(w, r, "")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := wire.Parse(body)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case !m.IsRequest():
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == wire.Listen:
		hold(w, r, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":%q,\"params\":{\"notifications\":{\"promptsListChanged\":true},\"_meta\":{%q:%s}}}\n\n",
			wire.Acknowledged, wire.MetaSubscriptionID, m.ID))
		return
	case m.Method == wire.Initialize:
		w.Header().Set(wire.HeaderSessionID, "session")
	}
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	if u.sse && m.Method == wire.PromptsGet {
		w.Header().Set("Content-Type", wire.ContentSSE)
		*buffer = append(u.respond(append((*buffer)[:0], "data: "...), m), "\n\n"...)
	} else {
		w.Header().Set("Content-Type", wire.ContentJSON)
		*buffer = u.respond((*buffer)[:0], m)
		w.Header().Set("Content-Length", strconv.Itoa(len(*buffer)))
	}
	_, _ = w.Write(*buffer) // fails only if the client has gone
}

// hold sends the first event of a stream, if any, and keeps the stream open.
func hold(w http.ResponseWriter, r *http.Request, first string) {
	w.Header().Set("Content-Type", wire.ContentSSE)
	_, _ = io.WriteString(w, first)           // an error recurs in Flush
	_ = http.NewResponseController(w).Flush() // fails only if the client has gone
	<-r.Context().Done()
}

func (u *upstream) serveStdio(in io.Reader, out io.Writer) error {
	var mu sync.Mutex // guards out
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		m, err := wire.Parse(append([]byte(nil), lines.Bytes()...))
		if err != nil {
			return err
		}
		if !m.IsRequest() || m.Method == wire.Listen {
			continue
		}
		go func() {
			line := append(u.respond(nil, m), '\n')
			mu.Lock()
			defer mu.Unlock()
			_, _ = out.Write(line) // fails only if the client has gone
		}()
	}
	return lines.Err()
}

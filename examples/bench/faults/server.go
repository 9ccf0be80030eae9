//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/lean"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A mode is what a server does wrong. It is the text of a file that the server reads again and again, so that a child process of
// the gateway is told in the same way as a server over HTTP. The modes "400" to "599" are HTTP statuses of all requests that begin; streams
// go on.
type mode string

// The modes of a server over HTTP and, from wedged on, of a child process.
const (
	healthy mode = "healthy"
	// otherList offers another list of prompts, from the next start on or at once.
	otherList mode = "other list"
	// forgetful ends all sessions once.
	forgetful mode = "forgets sessions"
	expired   mode = "expired certificate"
	html      mode = "HTML"
	truncated mode = "truncated"
	wrongID   mode = "wrong id"
	huge      mode = "1 GiB"
	// These break off in the middle of a response to a get, or stop there.
	resetInBody  mode = "reset in body"
	stopInBody   mode = "stop in body"
	resetInEvent mode = "reset in event"
	stopInEvent  mode = "stop in event"

	wedged   mode = "wedged"   // reads and does not answer
	deaf     mode = "deaf"     // does not read
	noisy    mode = "noisy"    // prints what is no message
	crashing mode = "crashing" // exits at each start
)

// modeInterval is how often a server looks for another mode.
const modeInterval = 20 * time.Millisecond

// hugeSize is the size of a response in the mode huge, in bytes.
const hugeSize = 1 << 30

// serverCommand is a server that can be told to do wrong.
type serverCommand struct {
	stdio, modern    bool
	listen, mode     string
	certificate, pid string
	size             int
	lean             lean.Server

	mu sync.Mutex // guards conns
	// conns are the open connections of the HTTP server.
	conns map[net.Conn]struct{}
}

// serve runs a server until it is killed, or the input of one over stdio ends.
func serve(ctx context.Context, args []string) error {
	var s serverCommand
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.BoolVar(&s.stdio, "stdio", false, "speak over standard input and output")
	flags.BoolVar(&s.modern, "modern", false, "speak 2026-07-28 instead of 2025-11-25")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:0", "`address` of the server over HTTP")
	flags.StringVar(&s.mode, "mode", "", "`file` with the mode")
	flags.StringVar(&s.certificate, "tls", "", "speak TLS, and write the certificate of the CA to this `file`")
	flags.StringVar(&s.pid, "pid", "", "write the process ID to this `file`")
	flags.IntVar(&s.size, "size", 300, "size of the text of a prompt, in bytes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.lean.Legacy = !s.modern
	s.lean.Answer(fmt.Sprintf(`{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":%q}}]}`, strings.Repeat("x", s.size)))
	s.offer(s.now())
	if s.pid != "" {
		if err := os.WriteFile(s.pid, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
	}
	if s.stdio {
		return s.serveStdio()
	}
	go s.follow(ctx)
	return s.serveHTTP(ctx)
}

func (s *serverCommand) now() mode {
	text, err := os.ReadFile(s.mode)
	if err != nil {
		return healthy
	}
	return mode(text)
}

// offer publishes the prompts of a mode.
func (s *serverCommand) offer(m mode) {
	prompts := []string{lean.Prompt(promptName, "A prompt of a server that may be ill")}
	if m == otherList {
		prompts = append(prompts, lean.Prompt(otherPromptName, "A prompt that another list has"))
	}
	s.lean.Offer(prompts...)
}

// follow carries out what a mode does once, when it begins.
func (s *serverCommand) follow(ctx context.Context) {
	for last := s.now(); ctx.Err() == nil; time.Sleep(modeInterval) {
		now := s.now()
		if now == last {
			continue
		}
		if now == otherList || last == otherList {
			s.offer(now)
		}
		switch now {
		case forgetful:
			s.lean.Forget()
		case expired:
			s.closeAll()
		case crashing:
			os.Exit(1)
		}
		last = now
	}
}

func (s *serverCommand) serveHTTP(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return err
	}
	s.conns = map[net.Conn]struct{}{}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), ConnState: s.track}
	scheme, run := "http", func() error { return server.Serve(listener) }
	if s.certificate != "" {
		if server.TLSConfig, err = certificates(s.certificate, s.now); err != nil {
			return err
		}
		scheme, run = "https", func() error { return server.ServeTLS(listener, "", "") }
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	slog.InfoContext(ctx, "listening", slog.String("endpoint", fmt.Sprintf("%s://%s/mcp", scheme, listener.Addr())))
	return run()
}

func (s *serverCommand) track(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c)
	}
}

func (s *serverCommand) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close() // that is the fault
	}
}

// ServeHTTP implements [http.Handler].
func (s *serverCommand) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := s.now()
	if status, err := strconv.Atoi(string(now)); err == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var request struct {
		ID     json.RawMessage
		Method string
	}
	if r.Method == http.MethodPost && json.Unmarshal(body, &request) == nil && request.Method == wire.PromptsGet && s.spoil(w, r, request.ID, now) {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.lean.ServeHTTP(w, r)
}

// spoil answers a get in a mode that gets are answered wrongly in.
func (s *serverCommand) spoil(w http.ResponseWriter, r *http.Request, id json.RawMessage, now mode) (done bool) {
	answer := s.lean.Respond(id, wire.PromptsGet)
	half := answer[:len(answer)/2]
	switch now {
	case html:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!DOCTYPE html><title>Welcome</title><p>Please log in.") // fails only if the client has gone
	case truncated:
		w.Header().Set("Content-Type", wire.ContentJSON)
		_, _ = w.Write(half) // as above
	case wrongID:
		w.Header().Set("Content-Type", wire.ContentJSON)
		_, _ = w.Write(s.lean.Respond(json.RawMessage("987654321"), wire.PromptsGet)) // as above
	case huge:
		w.Header().Set("Content-Type", wire.ContentJSON)
		writeHuge(w, half)
	case resetInBody, stopInBody:
		w.Header().Set("Content-Type", wire.ContentJSON)
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		s.breakOff(w, r, half, now)
	case resetInEvent, stopInEvent:
		w.Header().Set("Content-Type", wire.ContentSSE)
		s.breakOff(w, r, append([]byte("data: "), half...), now)
	default:
		return false
	}
	return true
}

// breakOff writes the first half of a response, and then resets the connection or writes no more.
func (s *serverCommand) breakOff(w http.ResponseWriter, r *http.Request, half []byte, now mode) {
	_, _ = w.Write(half)                      // an error recurs in Flush
	_ = http.NewResponseController(w).Flush() // fails only if the client has gone
	if now == stopInBody || now == stopInEvent {
		for s.now() == now && r.Context().Err() == nil {
			time.Sleep(modeInterval)
		}
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // which closes the connection
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise Close ends the connection in order
	}
	_ = conn.Close() // that is the fault
}

// writeHuge begins a response and goes on with it.
func writeHuge(w io.Writer, begun []byte) {
	if _, err := w.Write(begun); err != nil {
		return
	}
	more := bytes.Repeat([]byte("x"), 1<<20)
	for written := 0; written < hugeSize; written += len(more) {
		if _, err := w.Write(more); err != nil {
			return // the client has had enough
		}
	}
}

// serveStdio passes on lines to the server, unless its mode is to do something else with them.
func (s *serverCommand) serveStdio() error {
	if s.now() == crashing {
		return errors.New("crashing")
	}
	go s.follow(context.Background())
	go s.makeNoise()
	in, lines := io.Pipe()
	go func() {
		err := s.passLines(lines)
		_ = lines.CloseWithError(err) // never fails
	}()
	return s.lean.ServeStdio(in, os.Stdout)
}

func (s *serverCommand) passLines(to io.Writer) error {
	lines := bufio.NewReader(os.Stdin)
	for {
		for s.now() == deaf {
			time.Sleep(modeInterval)
		}
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		if s.now() == wedged {
			continue
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
}

// makeNoise prints lines that are no messages while the mode is noisy.
func (s *serverCommand) makeNoise() {
	line := []byte(strings.Repeat("noise ", 100) + "\n")
	for {
		if s.now() != noisy {
			time.Sleep(modeInterval)
			continue
		}
		for range 1000 {
			if _, err := os.Stdout.Write(line); err != nil {
				return // the gateway has gone
			}
		}
	}
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
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

const (
	// modeInterval is how often a server looks for another mode.
	modeInterval = 20 * time.Millisecond
	// hugeSize is the size of a response in the mode huge, in bytes.
	hugeSize = 1 << 30
)

// sickServer is a server that can be told to do wrong.
type sickServer struct {
	*rig.Server

	mode string // a file

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
}

// serve runs a server until it is killed, or the input of one over stdio ends.
func serve(ctx context.Context, args []string) error {
	s := &sickServer{conns: map[net.Conn]struct{}{}}
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	stdio := flags.Bool("stdio", false, "speak over standard input and output")
	modern := flags.Bool("modern", false, "speak 2026-07-28 instead of 2025-11-25")
	listen := flags.String("listen", "127.0.0.1:0", "`address` of the server over HTTP")
	certificate := flags.String("tls", "", "speak TLS, and write the certificate of the CA to this `file`")
	pid := flags.String("pid", "", "write the process ID to this `file`")
	size := flags.Int("size", 300, "size of the text of a prompt, in bytes")
	workers := flags.Int("workers", 0, "answer as many gets at a time, in 20 ms each; 0 means no bound")
	flags.StringVar(&s.mode, "mode", "", "`file` with the mode")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.Server = rig.NewServer(!*modern, *size)
	s.OnGet = s.spoil
	if s.Workers = *workers; s.Workers > 0 {
		s.Delay = 20 * time.Millisecond
	}
	s.offer(s.now())
	if *pid != "" {
		if err := os.WriteFile(*pid, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
	}
	if *stdio {
		return s.serveStdio(ctx)
	}
	go s.follow(ctx)
	return s.serveHTTP(ctx, *listen, *certificate)
}

func (s *sickServer) now() mode {
	text, err := os.ReadFile(s.mode)
	if err != nil {
		return healthy
	}
	return mode(text)
}

func (s *sickServer) offer(m mode) {
	prompts := []string{rig.Prompt(promptName, "A prompt of a server that may be ill")}
	if m == otherList {
		prompts = append(prompts, rig.Prompt(otherPromptName, "A prompt that another list has"))
	}
	s.Offer(prompts...)
}

// follow carries out what a mode does once, when it begins.
func (s *sickServer) follow(ctx context.Context) {
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
			s.Forget()
		case expired:
			s.mu.Lock()
			for c := range s.conns {
				_ = c.Close() // that is the fault
			}
			s.mu.Unlock()
		case crashing:
			os.Exit(1)
		}
		last = now
	}
}

func (s *sickServer) serveHTTP(ctx context.Context, address, certificate string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.conns[c] = struct{}{}
		case http.StateClosed, http.StateHijacked:
			delete(s.conns, c)
		}
	}
	scheme, run := "http", func() error { return server.Serve(listener) }
	if certificate != "" {
		if server.TLSConfig, err = certificates(certificate, s.now); err != nil {
			return err
		}
		scheme, run = "https", func() error { return server.ServeTLS(listener, "", "") }
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	slog.InfoContext(ctx, "listening", slog.String("endpoint", fmt.Sprintf("%s://%s/mcp", scheme, listener.Addr())))
	return run()
}

// ServeHTTP implements [http.Handler].
func (s *sickServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := strconv.Atoi(string(s.now())); err == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	s.Server.ServeHTTP(w, r)
}

// spoil answers a get in a mode that gets are answered wrongly in.
func (s *sickServer) spoil(w http.ResponseWriter, r *http.Request, m wire.Message) (done bool) {
	now := s.now()
	if now == healthy {
		return false
	}
	answer := s.Respond(nil, m.ID, wire.PromptsGet)
	half := answer[:len(answer)/2]
	w.Header().Set("Content-Type", wire.ContentJSON)
	switch now {
	case html:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!DOCTYPE html><title>Welcome</title><p>Please log in.") // fails only if the client has gone
	case truncated:
		_, _ = w.Write(half) // as above
	case wrongID:
		_, _ = w.Write(s.Respond(nil, []byte("987654321"), wire.PromptsGet)) // as above
	case huge:
		more := bytes.Repeat([]byte("x"), 1<<20)
		_, err := w.Write(half)
		for written := 0; err == nil && written < hugeSize; written += len(more) {
			_, err = w.Write(more) // fails when the client has had enough
		}
	case resetInBody, stopInBody:
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
func (s *sickServer) breakOff(w http.ResponseWriter, r *http.Request, half []byte, now mode) {
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

// serveStdio passes on lines to the server, unless its mode is to do something else with them.
func (s *sickServer) serveStdio(ctx context.Context) error {
	if s.now() == crashing {
		return errors.New("crashing")
	}
	go s.follow(ctx)
	go s.makeNoise()
	in, lines := io.Pipe()
	go func() {
		err := s.passLines(lines)
		_ = lines.CloseWithError(err) // never fails
	}()
	return s.ServeStdio(in, os.Stdout)
}

func (s *sickServer) passLines(to io.Writer) error {
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
func (s *sickServer) makeNoise() {
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

// certificates returns the TLS settings of a server whose certificate expires with the mode. The CA that signs it is new, and its
// certificate is written to a file.
func certificates(file string, now func() mode) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-72 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return nil, err
	}
	leaf := func(until time.Duration) (*tls.Certificate, error) {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(until), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		signed, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), key)
		return &tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, err
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if now() == expired {
			return leaf(-24 * time.Hour)
		}
		return leaf(24 * time.Hour)
	}}
	return settings, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// lookInterval is the pause between two looks of an operator.
const lookInterval = 100 * time.Millisecond

// operator is somebody who looks at a gateway, in a process of its own. In that of the load, it would wait for its turn among thousands
// of clients, and what it measures would say little about the gateway.
type operator struct {
	command *exec.Cmd
	stop    io.WriteCloser
	report  bytes.Buffer
}

// seen is what an operator reports.
type seen struct {
	// Slowest is the longest that a page took, and Page that page.
	Slowest time.Duration
	Page    string
	// Goroutines is the most that the gateway had.
	Goroutines int
}

// startOperator starts an operator for the admin listener at a URL.
func startOperator(ctx context.Context, admin string) (*operator, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := &operator{command: exec.CommandContext(ctx, self, "-operate", admin)}
	o.command.Stdout, o.command.Stderr = &o.report, os.Stderr
	if o.stop, err = o.command.StdinPipe(); err != nil {
		return nil, err
	}
	return o, o.command.Start()
}

// end stops the operator and returns its report.
func (o *operator) end() (s seen, err error) {
	_ = o.stop.Close()
	if err := o.command.Wait(); err != nil {
		return s, fmt.Errorf("operator: %w", err)
	}
	return s, json.Unmarshal(o.report.Bytes(), &s)
}

// operate is the operator's process: it looks until its standard input ends, and prints what it has seen.
func operate(ctx context.Context, admin string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	pages := []string{"/readyz", "/healthz", "/metrics"}
	var s seen
	for i := 0; ctx.Err() == nil; i++ {
		begun, page := time.Now(), pages[i%len(pages)]
		text, err := look(ctx, admin+page, i%2 == 1)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if took := time.Since(begun); took > s.Slowest {
			s.Slowest, s.Page = took, page
		}
		s.Goroutines = max(s.Goroutines, goroutines(text))
		select {
		case <-time.After(lookInterval):
		case <-ctx.Done():
		}
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// look gets a page, within calmBound. The last look of a connection makes the next one connect anew, as load balancers and kubelets do for
// each.
func look(ctx context.Context, url string, last bool) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, calmBound)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	r.Close = last
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// goroutines returns the number of goroutines that metrics name, or 0.
func goroutines(metrics []byte) int {
	_, rest, _ := bytes.Cut(metrics, []byte("\ngo_goroutines "))
	number, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.Atoi(string(number))
	if err != nil {
		return 0
	}
	return n
}

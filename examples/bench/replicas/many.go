package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/client"
	"github.com/promptweir/promptweir/examples/bench/internal/lean"
	"github.com/promptweir/promptweir/examples/bench/internal/process"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// takeover is within which time others have to watch what a replica watched that died.
	takeover = 10 * time.Second
	// limitedPause is the time between two limited gets of one replica, and limitedTime for how long they are made before the replica dies.
	limitedPause, limitedTime = 10 * time.Millisecond, 10 * time.Second
	// token is the client's.
	token = "of-the-client"
)

// runMany runs a fleet with many servers, of which the first replica watches all, and kills that.
func runMany(ctx context.Context, bin string, replicas, count int) error {
	w := &world{}
	defer w.close()
	if err := w.startFleet(ctx, bin, replicas, count); err != nil {
		return err
	}
	if err := w.measureQuiet(ctx); err != nil {
		return err
	}
	return w.measureTakeover(ctx)
}

// startFleet starts a store, servers and replicas, one after another, and waits until the first watches all.
func (w *world) startFleet(ctx context.Context, bin string, replicas, count int) error {
	if err := w.startStore(ctx); err != nil {
		return err
	}
	text := w.startMany(count)
	for i := range replicas {
		began, before := time.Now(), w.storeTraffic(ctx)
		g, err := process.StartGateway(ctx, text, filepath.Join(bin, "promptweir"))
		if err != nil {
			return err
		}
		w.gateways = append(w.gateways, g)
		if err := await(ctx, fmt.Sprint("replica that lists all ", count, " servers"), func() bool { return listed(ctx, g) == count }); err != nil {
			return err
		}
		fmt.Printf("replica %d lists all after %v: %s\n", i+1, time.Since(began).Round(10*time.Millisecond), w.storeTraffic(ctx).since(before))
	}
	if err := pause(ctx, settling); err != nil {
		return err
	}
	return await(ctx, "stream of each server", func() bool { return w.watched() == count })
}

// measureQuiet measures what a fleet costs its store while nothing changes.
func (w *world) measureQuiet(ctx context.Context) error {
	lists, before := w.lists(), w.storeTraffic(ctx)
	if err := pause(ctx, idleTime); err != nil {
		return err
	}
	quiet := w.storeTraffic(ctx).since(before)
	model := fleet{replicas: len(w.gateways), servers: len(w.servers), shared: true}
	fmt.Printf("%d servers, %d lists of theirs; in %v without a change: %s; %.0f commands a second (%.0f by the model)\n",
		len(w.servers), lists, idleTime, quiet, float64(quiet.commands)/idleTime.Seconds(), model.standing().commands)
	return nil
}

// measureTakeover kills the first replica, and measures what the others do about it, and what limited gets there notice. It returns an error
// if the others take too long, or a get has failed.
func (w *world) measureTakeover(ctx context.Context) error {
	quietly := w.limitedFor(ctx, limitedTime, func() bool { return false })
	before, lists := w.storeTraffic(ctx), w.lists()
	if err := w.gateways[0].Kill(); err != nil {
		return err
	}
	taking := takingOver{began: time.Now(), fewest: len(w.servers)}
	meanwhile := w.limitedFor(ctx, patience, func() bool {
		taking.peak.note(w.monitor.seen().commands)
		taking.note(w.watched(), len(w.servers))
		return taking.took > 0 && time.Since(taking.began) > taking.took+2*time.Second
	})
	after := w.storeTraffic(ctx)
	fmt.Printf("the first is killed, which watched %d: all are watched again after %v, %d lists; %s; at most %d commands in one second\n",
		len(w.servers)-taking.fewest, taking.took.Round(10*time.Millisecond), w.lists()-lists, after.since(before), taking.peak.most)
	fmt.Printf("limited gets before: %s\nlimited gets meanwhile: %s\n", quietly, meanwhile)
	for i, g := range w.gateways[1:] {
		if n := strings.Count(g.Log(), "store away"); n > 0 {
			fmt.Printf("replica %d: the store was away %d times\n", i+2, n)
		}
	}
	switch {
	case taking.took == 0 || taking.took > takeover:
		return fmt.Errorf("not all servers are watched again within %v", takeover)
	case meanwhile.failed > 0:
		return fmt.Errorf("%d limited gets have failed", meanwhile.failed)
	}
	return nil
}

// takingOver is how replicas take over what another one watched.
type takingOver struct {
	began time.Time
	// fewest is how many servers were watched when there were fewest, and took after what time all were again; 0 if they are not yet.
	fewest int
	took   time.Duration
	peak   peak
}

// note notes how many of all servers are watched now.
func (t *takingOver) note(watched, all int) {
	t.fewest = min(t.fewest, watched)
	if t.fewest < all && watched == all && t.took == 0 {
		t.took = time.Since(t.began)
	}
}

// startMany starts servers at one address, each with one prompt, and returns the configuration of a gateway.
func (w *world) startMany(count int) string {
	var upstreams strings.Builder
	handler := make(map[string]*counter, count)
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler[r.URL.Path].ServeHTTP(rw, r) }))
	w.web = append(w.web, web)
	for i := range count {
		s := &counter{}
		s.Offer(lean.Prompt("p", "One of many."))
		s.Answer(`{"resultType":"complete","messages":[{"role":"user","content":{"type":"text","text":"Review it."}}]}`)
		path := "/" + strconv.Itoa(i)
		handler[path] = s
		w.servers = append(w.servers, s)
		fmt.Fprintf(&upstreams, "  upstream \"s%d\" { url = %q }\n", i, web.URL+path)
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return fmt.Sprintf(`
gateway {
  listen      = "127.0.0.1:0"
  cursor_keys = [%q]
  page_size   = 1000
}
admin { listen = "127.0.0.1:0" }
cluster { store = "redis://%s" }
auth {
  token "bench" { sha256 = "%x" }
}
team "rig" {
  members = ["user:nobody"]
%s
  expose "all" {
    prompts = ["*"]
    to      = ["*"]
    limit {
      rate        = 1000000
      concurrency = 1000
    }
  }
}
`, base64.StdEncoding.EncodeToString(key[:]), w.address, sha256.Sum256([]byte(token)), upstreams.String())
}

// watched returns how many servers a replica watches.
func (w *world) watched() (n int) {
	for _, s := range w.servers {
		if s.streams.Load() > 0 {
			n++
		}
	}
	return n
}

func (w *world) lists() (n int) {
	for _, s := range w.servers {
		n += int(s.lists.Load())
	}
	return n
}

// listed returns how many prompts a gateway lists.
func listed(ctx context.Context, g *process.Gateway) (n int) {
	c := client.Client{Endpoint: g.Endpoint, Token: token, Transport: http.DefaultTransport}
	for cursor := ""; ; {
		prompts, next, err := c.Page(ctx, cursor)
		if err != nil {
			return 0
		}
		if n += len(prompts); next == "" {
			return n
		}
		cursor = next
	}
}

// stored is what a store was asked and has sent, in all.
type stored struct{ commands, in, out int }

// storeTraffic asks the store what it has done.
func (w *world) storeTraffic(ctx context.Context) stored {
	s := stored{commands: w.monitor.seen().commands}
	info := askStore(ctx, w.address, "INFO stats\r\n")
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, _ := strconv.Atoi(value) // 0 for what is no number
		switch name {
		case "total_net_input_bytes":
			s.in = n
		case "total_net_output_bytes":
			s.out = n
		}
	}
	return s
}

func (s stored) since(before stored) stored {
	return stored{s.commands - before.commands, s.in - before.in, s.out - before.out}
}

func (s stored) String() string {
	return fmt.Sprintf("%d commands, %.1f MB to the store", s.commands, float64(s.in)/1e6)
}

// peak is the most that a count has grown in a second.
type peak struct {
	counts []int
	times  []time.Time
	most   int
}

func (p *peak) note(count int) {
	now := time.Now()
	p.counts, p.times = append(p.counts, count), append(p.times, now)
	for now.Sub(p.times[0]) > time.Second {
		p.counts, p.times = p.counts[1:], p.times[1:]
	}
	p.most = max(p.most, count-p.counts[0])
}

// gets are how limited gets went.
type gets struct {
	mu     sync.Mutex // guards what follows
	took   []time.Duration
	failed int
}

func (g *gets) String() string {
	slices.Sort(g.took)
	return fmt.Sprintf("%d, p50 %v, p99 %v, slowest %v, %d failed", len(g.took), at(g.took, 0.5).Round(10*time.Microsecond),
		at(g.took, 0.99).Round(10*time.Microsecond), at(g.took, 1).Round(10*time.Microsecond), g.failed)
}

// limitedFor has all replicas but the first answer limited gets, for a time at most or until ends says so.
func (w *world) limitedFor(ctx context.Context, most time.Duration, ends func() bool) *gets {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var all gets
	var running sync.WaitGroup
	for _, g := range w.gateways[1:] {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				began := time.Now()
				err := get(g.Endpoint, fmt.Sprintf("s%d.p", i%len(w.servers)))
				all.mu.Lock()
				if all.took = append(all.took, time.Since(began)); err != nil {
					all.failed++
				}
				all.mu.Unlock()
				_ = pause(ctx, limitedPause) // the loop ends
			}
		})
	}
	for ctx.Err() == nil && !ends() {
		_ = pause(ctx, 10*time.Millisecond) // as above
	}
	cancel()
	running.Wait()
	return &all
}

// get gets a prompt.
func get(endpoint, name string) error {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"name":%q,"arguments":{"code":"x"},"_meta":{%q:%q,%q:{}}}}`,
		wire.PromptsGet, name, wire.MetaProtocolVersion, wire.Rev20260728, wire.MetaClientCapabilities)
	r, err := http.NewRequest(http.MethodPost, endpoint, strings.NewReader(body)) //nolint:noctx // it is answered
	if err != nil {
		return err
	}
	for key, value := range map[string]string{
		"Content-Type": wire.ContentJSON, "Accept": wire.ContentJSON + ", " + wire.ContentSSE, "Authorization": "Bearer " + token,
		wire.HeaderProtocolVersion: wire.Rev20260728, wire.HeaderMethod: wire.PromptsGet, wire.HeaderName: name,
	} {
		r.Header.Set(key, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && !bytes.Contains(answer, []byte("Review it.")) {
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return err
}

// askStore returns the beginning of what the store answers to a command.
func askStore(ctx context.Context, address, command string) string {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // it is new
	_, _ = io.WriteString(conn, command)              // then there is no answer
	answer := make([]byte, 64<<10)
	n, _ := conn.Read(answer)
	return string(answer[:n])
}

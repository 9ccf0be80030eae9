package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/promptweir/promptweir/examples/bench/internal/client"
)

const (
	// patience bounds how long the true list may take to reach all clients in a quiet phase: the gateway tries an upstream that has
	// been down for long every ten seconds.
	patience = 30 * time.Second
	// listInterval bounds how long a client waits, while upstreams change, before it lists without a notification.
	listInterval = 2 * time.Second
	// maxViolations bounds how many errors are reported.
	maxViolations = 20
)

// audience is a set of clients that see the same prompts.
type audience struct {
	token string
	teams []int
}

// audiences returns the members of one team, of the other, and of both.
func audiences() []audience {
	return []audience{{"ann", []int{0}}, {"bob", []int{1}}, {"eve", []int{0, 1}}}
}

func (a audience) in(team int) bool { return slices.Contains(a.teams, team) }

// crowd is all clients.
type crowd struct {
	// busy makes clients list without a notification, too.
	busy    atomic.Bool
	members []*member
	world   *world
	group   errgroup.Group
	stop    context.CancelFunc
	carrier *http.Transport

	walks, pages, notified atomic.Int64

	mu     sync.Mutex // guards broken
	broken []error
}

// member is one client. It lists when it is notified, and keeps the list.
type member struct {
	audience

	name   string
	lister client.Client
	stream io.ReadCloser
	dirty  chan struct{} // of capacity one: a value in it means that a notification came since the last walk began

	mu   sync.Mutex // guards list
	list map[string]string
}

// join opens the streams of all clients and waits until each has listed.
func (c *crowd) join(ctx context.Context, s settings, endpoint string, w *world) error {
	ctx, c.stop = context.WithCancel(ctx)
	c.world = w
	c.carrier = &http.Transport{MaxIdleConnsPerHost: s.clients}
	for i := range s.clients {
		a := audiences()[i%len(audiences())]
		legacy := i/len(audiences())%2 == 0
		m := &member{audience: a, name: fmt.Sprintf("client %d (%s, legacy %v)", i, a.token, legacy), dirty: make(chan struct{}, 1)}
		m.lister = client.Client{Endpoint: endpoint, Token: a.token, Legacy: legacy, Transport: c.carrier}
		if legacy {
			if err := m.lister.Initialize(ctx); err != nil {
				return err
			}
		}
		var err error
		if m.stream, err = m.lister.Listen(ctx); err != nil {
			return err
		}
		c.members = append(c.members, m)
		m.signal()
		c.group.Go(func() error {
			err := client.Changes(m.stream, func() {
				c.notified.Add(1)
				m.signal()
			})
			if ctx.Err() == nil {
				c.violated(fmt.Errorf("%s: the stream ended: %w", m.name, err))
			}
			return nil
		})
		c.group.Go(func() error {
			c.follow(ctx, m)
			return nil
		})
	}
	_, err := c.settle(ctx)
	return errors.Join(err, c.violations())
}

// signal asks for a walk. It never blocks.
func (m *member) signal() {
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

// follow walks the list after each signal, until ctx ends.
func (c *crowd) follow(ctx context.Context, m *member) {
	for ctx.Err() == nil {
		select {
		case <-m.dirty:
		case <-time.After(rand.N(listInterval)): //nolint:gosec // need not be secret
			if !c.busy.Load() {
				continue
			}
		case <-ctx.Done():
			return
		}
		list, err := c.walk(ctx, m)
		if err != nil {
			if ctx.Err() == nil {
				c.violated(fmt.Errorf("%s: %w", m.name, err))
			}
			continue
		}
		m.mu.Lock()
		m.list = list
		m.mu.Unlock()
	}
}

// walk lists all pages and checks the whole.
func (c *crowd) walk(ctx context.Context, m *member) (map[string]string, error) {
	list, last, cursor := map[string]string{}, "", ""
	for {
		prompts, next, err := m.lister.Page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		c.pages.Add(1)
		for _, p := range prompts {
			if p.Name <= last {
				return nil, fmt.Errorf("prompt %s comes after %s", p.Name, last)
			}
			last, list[p.Name] = p.Name, p.Description
		}
		if next == "" {
			break
		}
		cursor = next
	}
	c.walks.Add(1)
	return list, c.checkPermanent(m, list)
}

// checkPermanent checks that a list has the permanent prompts that the client sees, and no others.
func (c *crowd) checkPermanent(m *member, list map[string]string) error {
	for _, u := range c.world.upstreams {
		for p := range permanent {
			name := fmt.Sprintf("%s.permanent%d", u.name, p)
			if _, listed := list[name]; listed != m.in(u.team) {
				return fmt.Errorf("%s: listed = %v, want %v", name, listed, m.in(u.team))
			}
		}
	}
	return nil
}

// settle waits until each client has the true list, and returns how long that took.
func (c *crowd) settle(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	for {
		err := c.checkLists()
		if err == nil {
			return time.Since(begun), nil
		}
		if time.Since(begun) > patience || ctx.Err() != nil {
			return 0, fmt.Errorf("after %s without changes: %w", patience, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// checkLists compares the list of each client with the prompts that the upstreams offer.
func (c *crowd) checkLists() error {
	truth := map[string]map[string]string{}
	for _, a := range audiences() {
		truth[a.token] = c.world.sees(a.teams)
	}
	var wrong []string
	for _, m := range c.members {
		m.mu.Lock()
		if !maps.Equal(m.list, truth[m.token]) {
			wrong = append(wrong, m.name+": "+difference(truth[m.token], m.list))
		}
		m.mu.Unlock()
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("%d clients have a wrong list: %s", len(wrong), strings.Join(wrong[:min(len(wrong), 3)], "; "))
}

// difference describes the first few differences between two lists.
func difference(want, got map[string]string) string {
	var names []string
	for name := range want {
		if got[name] != want[name] {
			names = append(names, fmt.Sprintf("%s = %q, want %q", name, got[name], want[name]))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name+" is listed but no longer offered")
		}
	}
	slices.Sort(names)
	return strings.Join(names[:min(len(names), 3)], ", ")
}

// lastChange makes one change in each team, in a quiet phase, and waits until all clients have listed it.
func (c *crowd) lastChange(ctx context.Context, part int) error {
	for team := range teams {
		u := c.world.upstreams[len(c.world.upstreams)-1-team]
		u.prompts["last"] = fmt.Sprint("of part ", part)
		c.world.offer(u)
	}
	if _, err := c.settle(ctx); err != nil {
		return fmt.Errorf("the last change: %w", err)
	}
	return nil
}

func (c *crowd) violated(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.broken) < maxViolations {
		c.broken = append(c.broken, err)
	}
}

func (c *crowd) violations() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(c.broken...)
	c.broken = nil
	return err
}

func (c *crowd) String() string {
	return fmt.Sprintf("%d walks over %d pages, %d notifications", c.walks.Load(), c.pages.Load(), c.notified.Load())
}

// idle closes idle connections.
func (c *crowd) idle() { c.carrier.CloseIdleConnections() }

func (c *crowd) leave() {
	c.stop()
	for _, m := range c.members {
		_ = m.stream.Close()
	}
	_ = c.group.Wait() // errors are among the violations
}

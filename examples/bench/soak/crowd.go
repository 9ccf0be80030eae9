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
	// patience bounds how long the true list may take to reach everybody once all is quiet: an upstream that was down
	// for long is tried again every ten seconds.
	patience = 30 * time.Second
	// drowsiness is how long a client waits at most before it lists again without having been told to, in busy times.
	drowsiness = 2 * time.Second
	// maxViolations bounds what is told.
	maxViolations = 20
)

// audience is who sees the same.
type audience struct {
	token string
	teams []int
}

// audiences are the members of one team, of the other, and of both.
func audiences() []audience {
	return []audience{{"ann", []int{0}}, {"bob", []int{1}}, {"eve", []int{0, 1}}}
}

func (a audience) in(team int) bool { return slices.Contains(a.teams, team) }

// crowd is all clients.
type crowd struct {
	// busy makes clients list also when they are not told to.
	busy    atomic.Bool
	members []*member
	world   *world
	group   errgroup.Group
	stop    context.CancelFunc
	carrier *http.Transport

	drains, pages, told atomic.Int64

	mu     sync.Mutex // guards broken
	broken []error
}

// member is one client. It lists when it is told of a change, and keeps what it listed.
type member struct {
	audience

	name   string
	lister client.Client
	stream io.ReadCloser
	dirty  chan struct{} // holds at most one mark: that it was told since its last drain began

	mu   sync.Mutex // guards list
	list map[string]string
}

// join makes all clients open their streams and list for the first time.
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
		m.tell()
		c.group.Go(func() error {
			err := client.Changes(m.stream, func() {
				c.told.Add(1)
				m.tell()
			})
			if ctx.Err() == nil {
				c.violated(fmt.Errorf("%s: the stream has ended: %w", m.name, err))
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

// tell marks that the list is to be drained. It never blocks.
func (m *member) tell() {
	select {
	case m.dirty <- struct{}{}:
	default:
	}
}

// follow drains the list again and again.
func (c *crowd) follow(ctx context.Context, m *member) {
	for ctx.Err() == nil {
		select {
		case <-m.dirty:
		case <-time.After(rand.N(drowsiness)): //nolint:gosec // chance
			if !c.busy.Load() {
				continue
			}
		case <-ctx.Done():
			return
		}
		list, err := c.drain(ctx, m)
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

// drain follows the pages to the end and looks at what they hold together.
func (c *crowd) drain(ctx context.Context, m *member) (map[string]string, error) {
	list, last, cursor := map[string]string{}, "", ""
	for {
		prompts, next, err := m.lister.Page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		c.pages.Add(1)
		for _, p := range prompts {
			if p.Name <= last {
				return nil, fmt.Errorf("%s follows %s", p.Name, last)
			}
			last, list[p.Name] = p.Name, p.Description
		}
		if next == "" {
			break
		}
		cursor = next
	}
	c.drains.Add(1)
	return list, c.complete(m, list)
}

// complete looks for what was there throughout.
func (c *crowd) complete(m *member, list map[string]string) error {
	for _, u := range c.world.upstreams {
		for p := range permanent {
			name := fmt.Sprintf("%s.permanent%d", u.name, p)
			if _, listed := list[name]; listed != m.in(u.team) {
				return fmt.Errorf("%s is listed: %v, but the client sees it: %v", name, listed, m.in(u.team))
			}
		}
	}
	return nil
}

// settle waits until each client holds the true list, and returns how long that took.
func (c *crowd) settle(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	for {
		err := c.untrue()
		if err == nil {
			return time.Since(begun), nil
		}
		if time.Since(begun) > patience || ctx.Err() != nil {
			return 0, fmt.Errorf("not within %s of quiet: %w", patience, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// untrue returns how the lists that clients hold differ from what is offered.
func (c *crowd) untrue() error {
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
	return fmt.Errorf("%d clients hold a list that is not the true one; %s", len(wrong), strings.Join(wrong[:min(len(wrong), 3)], "; "))
}

// difference names what is different, the first few.
func difference(want, got map[string]string) string {
	var names []string
	for name := range want {
		if got[name] != want[name] {
			names = append(names, fmt.Sprintf("%s is %q instead of %q", name, got[name], want[name]))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name+" is gone")
		}
	}
	slices.Sort(names)
	return strings.Join(names[:min(len(names), 3)], ", ")
}

// lastChange makes one change in each team, in the quiet, and waits until everybody has heard of it and listed it.
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
	return fmt.Sprintf("%d drains of %d pages, %d times told", c.drains.Load(), c.pages.Load(), c.told.Load())
}

// idle closes connections that nobody uses.
func (c *crowd) idle() { c.carrier.CloseIdleConnections() }

func (c *crowd) leave() {
	c.stop()
	for _, m := range c.members {
		_ = m.stream.Close()
	}
	_ = c.group.Wait() // they have told already
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/serving"
	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/clients"
	"github.com/promptweir/promptweir/gateway/cluster"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
)

// maxClockOffset is the tolerated difference between a server's clock and this machine's. With a larger
// difference, new tokens of one machine may not be valid on the other.
const maxClockOffset = 30 * time.Second

// checkStatus is the outcome of one check.
type checkStatus string

const (
	checkOK      checkStatus = "ok"
	checkWarning checkStatus = "warning"
	checkError   checkStatus = "error"
)

// liveCheck is one line of the checklist.
type liveCheck struct {
	// Check is the kind of check, a key of checkTitles.
	Check  string      `json:"check"`
	Status checkStatus `json:"status"`
	// Text is the finding and, for problems, the remedy.
	Text string `json:"text"`
	// Upstream contains the details of an upstream's check. It is nil for other checks.
	Upstream *checkedUpstream `json:"upstream,omitempty"`
	// location is PATH:LINE or PATH of the problem, or "" if the problem is in no file.
	location string
}

// checkTitles contains the titles of annotations for failed checks.
var checkTitles = map[string]string{ //nolint:gochecknoglobals // a constant table
	"upstream": "Upstream in trouble", "report": "Problem with a prompt", "pages": "More than one page",
	"cursor_keys": "No cursor keys", "clock": "Clocks differ", "listener": "Cannot listen",
	"store": "Store in trouble", "client": "Lost in a client", "skill": "Problem with a skill",
}

// checked returns a line of the checklist, without details of an upstream.
func checked(check string, status checkStatus, location, format string, args ...any) liveCheck {
	return liveCheck{check, status, fmt.Sprintf(format, args...), nil, location}
}

// diagnostic converts a failed check to a diagnostic.
func (c *liveCheck) diagnostic() config.Diagnostic {
	d := config.Diagnostic{
		Severity: string(c.Status), Summary: checkTitles[c.Check], Detail: c.Text,
	}
	if c.location == "" {
		return d
	}
	file, at := c.location, config.Position{Line: 1} // the beginning of the file
	if colon := strings.LastIndex(file, ":"); colon >= 0 {
		if line, err := strconv.Atoi(file[colon+1:]); err == nil {
			file, at.Line = file[:colon], line
		}
	}
	d.Range = &config.Range{Filename: file, Start: at, End: at}
	return d
}

// checkedUpstream is the state of an upstream after its first list.
type checkedUpstream struct {
	admin.UpstreamHealth

	// Address is the URL or the command without secrets. Transport is the negotiated transport, or "" before
	// the first connection.
	Address   string `json:"address"`
	Transport string `json:"transport,omitempty"`
	// OffersPrompts reports whether the server declares prompts.
	OffersPrompts bool `json:"offers_prompts"`
	// Milliseconds is the time until the first list arrived or the attempt failed.
	Milliseconds int64 `json:"milliseconds"`
}

// check returns the upstream's line of the checklist.
func (u checkedUpstream) check(status checkStatus, text string) liveCheck {
	return liveCheck{"upstream", status, text, &u, u.Place}
}

// checkLive starts the upstreams, and adds the checks of --live.
func (v *validateFlags) checkLive(ctx context.Context, cfg *config.Config, found *validation) error {
	listeners := checkListeners(ctx, cfg) // before withGateway registers the addresses as the gateway's own
	return v.app.withGateway(ctx, cfg, func(g *gateway.Gateway) error {
		waiting := v.app.tellLater(func() { v.app.warnOfWaiting(g.Snapshot()) })
		took := awaitEach(ctx, g)
		waiting.Stop()
		s := g.Snapshot()
		found.count(s)
		found.checks = slices.Concat(checkUpstreams(s, took), checkSnapshot(s), checkSkills(ctx, g),
			checkStore(ctx, cfg, s.Sealer), listeners)
		return errors.Join(v.findLosses(s, found), ctx.Err())
	})
}

// awaitEach waits until each upstream has been listed or has failed, but no longer than listedBound. It returns
// the time that each upstream took, by name.
func awaitEach(ctx context.Context, g *gateway.Gateway) map[string]time.Duration {
	ctx, cancel := context.WithTimeout(ctx, listedBound)
	defer cancel()
	begun, took := time.Now(), map[string]time.Duration{}
	for {
		s := g.Snapshot()
		for i, state := range s.States {
			if _, known := took[s.Upstreams[i].Name]; state.Tried && !known {
				took[s.Upstreams[i].Name] = time.Since(begun)
			}
		}
		if s.AllTried() {
			return took
		}
		select {
		case <-s.Superseded():
		case <-ctx.Done():
			return took
		}
	}
}

// checkUpstreams returns a line for each upstream.
func checkUpstreams(s *snapshot.Snapshot, took map[string]time.Duration) (checks []liveCheck) {
	troubles := map[string]snapshot.Trouble{}
	for _, t := range s.Troubles() {
		troubles[t.Upstream] = t
	}
	health := admin.Health(s).Upstreams
	for i, state := range s.States {
		u := &s.Upstreams[i]
		found := checkedUpstream{
			UpstreamHealth: health[i], Address: u.Address(), Transport: string(state.Transport),
			OffersPrompts: state.Listed && state.Promptless == nil, Milliseconds: took[u.Name].Milliseconds(),
		}
		if u.Files != nil {
			found.Transport = string(u.Transport)
		}
		if t, isTroubled := troubles[u.Name]; isTroubled {
			checks = append(checks, found.check(checkError, terminal.OneLine(t.String())))
		} else {
			checks = append(checks, found.check(checkOK, found.String()))
		}
		checks = append(checks, checkClock(u, s.States[i])...)
	}
	return checks
}

// checkClock returns a line if the server's clock differs from this machine's by more than maxClockOffset.
func checkClock(u *config.Upstream, state *upstream.State) []liveCheck {
	offset, direction := state.ClockOffset, "ahead of"
	if offset.Abs() <= maxClockOffset {
		return nil
	}
	if offset < 0 {
		direction = "behind"
	}
	return []liveCheck{checked("clock", checkWarning, u.Place.String(),
		"%s (%s): the clock of %s is %s %s this machine's; correct the wrong one, or valid tokens are refused",
		u.Name, u.Place, u.Address(), offset.Abs(), direction)}
}

// String describes the connection and the prompts of a working upstream.
func (u *checkedUpstream) String() string {
	how := u.Address
	switch u.Transport {
	case "":
	case string(config.NoServer):
		how = "files " + how
	default:
		how += " over " + u.Transport
	}
	if u.Revision != "" {
		how += ", revision " + u.Revision
	}
	return fmt.Sprintf("%s (%s): %s, %s, %d ms", u.Name, u.Place, terminal.OneLine(how),
		terminal.Count(u.Prompts, "prompt"), u.Milliseconds)
}

// checkSnapshot returns a line for each report, and for problems of the whole catalog.
func checkSnapshot(s *snapshot.Snapshot) (checks []liveCheck) {
	for _, r := range catalog.Summarized(append(s.Reports(), publish.Unmatched(s)...)) {
		checks = append(checks, checked("report", checkError, r.Place(), "%s",
			terminal.OneLine(r.Text)))
	}
	cfg := &s.Config.Gateway
	if n := len(s.Catalog.Entries()); n > cfg.PageSize {
		checks = append(checks, checked("pages", checkWarning, cfg.Place.String(),
			"a caller who sees all %d prompts gets several pages of %d, and these clients read "+
				"only the first: %s; raise page_size in the gateway block, or expose fewer prompts", n,
			cfg.PageSize, clients.FirstPageOnly()))
	}
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil && len(cfg.CursorKeys) == 0 &&
		!config.IsLoopback(host) {
		checks = append(checks, checked("cursor_keys", checkWarning, cfg.Place.String(),
			"cursor_keys is not set in the gateway block: replicas, and the gateway after a restart, refuse each other's "+
				"cursors and sessions; make one with: openssl rand -base64 32"))
	}
	return checks
}

// checkStore returns a line for the replicas' store, if there is one.
func checkStore(ctx context.Context, cfg *config.Config, sealer *seal.Sealer) []liveCheck {
	if cfg.Cluster == nil {
		return nil
	}
	line := checked("store", checkOK, "", "the store of the cluster block can be used")
	switch state := cluster.Check(ctx, cfg, sealer); {
	case !state.Connected:
		line.Status = checkError
		line.Text = "the store of the cluster block cannot be used: " +
			terminal.OneLine(state.Err.Error()) + "; start it, or correct store"
	case state.Evicts != "":
		line.Status = checkWarning
		line.Text = "the store of the cluster block drops limits when its memory is full (" +
			state.Evicts + "); set its maxmemory-policy to noeviction"
	}
	return []liveCheck{line}
}

// checkListeners returns a line for each listen address. An address that is free, or that a running gateway
// uses, is OK.
func checkListeners(ctx context.Context, cfg *config.Config) []liveCheck {
	isRunning := isAdminListener(ctx, "http://"+cfg.Admin.Listen)
	check := func(block, address string, place config.Place) liveCheck {
		location := place.String()
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		switch {
		case err == nil:
			_ = listener.Close()
			return checked("listener", checkOK, location, "%s of the %s block is free", address, block)
		case isRunning && errors.Is(err, syscall.EADDRINUSE):
			return checked("listener", checkOK, location, "a gateway listens on %s of the %s block", address, block)
		}
		return checked("listener", checkError, location, "%v", serving.ListenError(block, address, place, err))
	}
	return []liveCheck{
		check("gateway", cfg.Gateway.Listen, cfg.Gateway.Place),
		check("admin", cfg.Admin.Listen, cfg.Admin.Place),
	}
}

// summaryOf returns the number of checks by status, for people.
func summaryOf(checks []liveCheck) string {
	counts := map[checkStatus]int{}
	for i := range checks {
		counts[checks[i].Status]++
	}
	if counts[checkError]+counts[checkWarning] == 0 {
		return fmt.Sprintf("all %d checks passed", counts[checkOK])
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		part := terminal.Count(counts[status], string(status))
		if status == checkOK {
			part = fmt.Sprintf("%d ok", counts[status])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

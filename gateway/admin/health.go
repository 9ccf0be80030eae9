package admin

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
)

// Readiness is the body of /readyz, and what the page shows.
type Readiness struct {
	Ready bool `json:"ready"`
	// Draining is set once the gateway is stopping.
	Draining bool       `json:"draining,omitempty"`
	Version  string     `json:"version,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Entries  int        `json:"entries,omitempty"`
	// Streams counts the clients' open streams, Waiting the server requests that wait for a
	// client's reply.
	Streams   int              `json:"streams,omitempty"`
	Waiting   int              `json:"waiting,omitempty"`
	Upstreams []UpstreamHealth `json:"upstreams,omitempty"`
	// Store is the condition of the store that replicas share; nil where there is none.
	Store *StoreHealth `json:"store,omitempty"`
	// AuditProblem says why the audit log cannot be written, while it cannot.
	AuditProblem string `json:"audit_problem,omitempty"`
	// Reports are sentences about findings in the catalog that somebody should fix.
	Reports []string `json:"reports,omitempty"`
	// Configuration is the outcome of the last load.
	Configuration *ConfigurationState `json:"configuration,omitempty"`
	// ConfigurationHash is that of the texts in use: replicas can be compared by it.
	ConfigurationHash string `json:"configuration_hash,omitempty"`
}

// StoreHealth says whether the store that replicas share can be used, and since when that is so.
// Without it each replica counts limits alone, and is as ready as with it.
type StoreHealth struct {
	Here  bool      `json:"here"`
	Since time.Time `json:"since"`
	// Evicts is the policy by which the store drops limits when its memory is full; empty where it
	// does not.
	Evicts string `json:"evicts,omitempty"`
}

// ConfigurationState says since when the configuration has been in use, and why a later one is not.
type ConfigurationState struct {
	Loaded time.Time `json:"loaded"`
	// Refused and Problems are set while the configuration that was loaded last is not in use, or
	// not all of it: then LastGood and Out say which files are not.
	Refused  *time.Time `json:"refused,omitempty"`
	Problems []string   `json:"problems,omitempty"`
	// Warnings are those of the configuration in use, each with source location and remedy; see
	// [Loaded].
	Warnings []string `json:"warnings,omitempty"`
	// LastGood are the team files whose earlier text is in use, because they have a mistake, and
	// Out those of which nothing is. Teams has the teams of both, with "kept" or "out".
	LastGood []string          `json:"last_good,omitempty"`
	Out      []string          `json:"out,omitempty"`
	Teams    map[string]string `json:"teams,omitempty"`
	// Files are those of the configuration in use, and Diagnostics are about the one that was loaded
	// last.
	Files       []LoadedFile        `json:"-"`
	Diagnostics []config.Diagnostic `json:"-"`
}

// LoadedFile is a file of the configuration in use.
type LoadedFile struct {
	config.File

	// Loaded is when this text came into use.
	Loaded time.Time `json:"loaded"`
	// Kept is true if the file has errors now, so that an earlier text stays in use.
	Kept bool `json:"kept,omitempty"`
}

// UpstreamHealth is the condition of one upstream.
type UpstreamHealth struct {
	Name string `json:"name"`
	Team string `json:"team"`
	// Place is the source location of the upstream's block.
	Place     string `json:"place"`
	Connected bool   `json:"connected"`
	// Listed is true once its prompts have been listed. They stay while it is down.
	Listed   bool   `json:"listed"`
	Revision string `json:"revision,omitempty"`
	Prompts  int    `json:"prompts"`
	Trouble

	condition condition
}

// Trouble is why a list is not fresh, or gets fail. All of it is empty while neither is so.
type Trouble struct {
	Reason string     `json:"reason,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	// Failing is set where the list is fresh, but gets fail.
	Failing bool `json:"failing,omitempty"`
	// Cause says in a clause what happened, and Remedy what to do about it. They have no secrets of
	// the configuration, but may name addresses and quote the server.
	Cause  string `json:"cause,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// maxWarnings bounds the warnings that are shown: a team's file may cause any number of them.
const maxWarnings = 100

// IsInUse reports whether the configuration that was loaded last is in use, apart from files of
// teams that have mistakes.
func (c *ConfigurationState) IsInUse() bool { return c.Refused == nil || c.Refused.Equal(c.Loaded) }

// Loaded returns the state after a configuration was loaded in place of the one of an earlier state,
// which is nil at a start. Of more than 100 warnings, the others are counted.
func Loaded(before *ConfigurationState, at time.Time, cfg *config.Config, diagnostics config.Diagnostics) *ConfigurationState {
	warnings := diagnostics.Warnings()
	if more := len(warnings) - maxWarnings; more > 0 {
		warnings = append(warnings[:maxWarnings:maxWarnings],
			fmt.Sprintf("%d more; see promptweir validate", more))
	}
	loaded := map[config.File]time.Time{}
	if before != nil {
		for _, file := range before.Files {
			loaded[file.File] = file.Loaded
		}
	}
	state := &ConfigurationState{Loaded: at, Warnings: warnings, Diagnostics: diagnostics.All()}
	for _, file := range cfg.Files {
		since, stays := loaded[file]
		if !stays {
			since = at
		}
		state.Files = append(state.Files, LoadedFile{File: file, Loaded: since})
	}
	return state
}

// Refused returns the state after a configuration was refused. The error's text must hold nothing
// sensitive.
func Refused(inUse *ConfigurationState, at time.Time, err error) *ConfigurationState {
	state := *inUse
	state.Refused, state.Problems = &at, strings.Split(err.Error(), "\n")
	state.Diagnostics = []config.Diagnostic{{Severity: config.SeverityError, Summary: err.Error()}}
	if refused, ok := errors.AsType[*config.Error](err); ok {
		state.Diagnostics = refused.Diagnostics.All()
	}
	return &state
}

// startingBound is how long after the start a gateway waits for upstreams that neither answer nor
// fail before it is ready.
const startingBound = 5 * time.Second

// IsReady reports whether a gateway that has run for a time is ready, as far as a snapshot says:
// once each upstream has answered, failed or had five seconds, or its list is known from an earlier
// process. That all of them failed does not keep a gateway from being ready: restarting it, or
// leaving its clients without errors that say why, would help nobody.
func IsReady(s *snapshot.Snapshot, running time.Duration) bool {
	if running >= startingBound {
		return true
	}
	for i, state := range s.States {
		if !state.Tried && !s.Listed(i) {
			return false
		}
	}
	return true
}

// Health returns what a snapshot says of a gateway. Whether it is ready is left open.
func Health(s *snapshot.Snapshot) Readiness {
	r := Readiness{Entries: len(s.Catalog.Entries())}
	for _, report := range catalog.Summarized(s.Reports()) {
		r.Reports = append(r.Reports, report.Text)
	}
	for i := range s.States {
		r.Upstreams = append(r.Upstreams, upstreamHealth(s, i))
	}
	return r
}

// upstreamHealth returns the condition of the upstream at index i of a snapshot.
func upstreamHealth(s *snapshot.Snapshot, i int) UpstreamHealth {
	u, state := &s.Upstreams[i], s.States[i]
	return UpstreamHealth{
		Name: u.Name, Team: u.Team, Place: u.Place.String(), Connected: state.Connected,
		Listed: state.Listed, Revision: state.Revision, Prompts: len(s.Definitions(i)),
		Trouble: trouble(state.Problem), condition: conditionOf(state),
	}
}

// Level is how urgently something needs attention. Its text is a class of the console's style
// sheet.
type Level uint8

// The levels, the most urgent first.
const (
	Bad Level = iota
	Poor
	Good
)

func (l Level) String() string { return [...]string{"bad", "poor", "good"}[l] }

// Level returns how urgently the upstream needs attention.
func (h UpstreamHealth) Level() Level { return h.condition.level }

// Condition describes the upstream in a few words.
func (h UpstreamHealth) Condition() string { return h.condition.text }

// condition is how an upstream is.
type condition struct {
	level Level
	text  string
}

// conditionOf returns the condition of an upstream in a state: what matters most.
func conditionOf(state *upstream.State) condition {
	p := state.Problem
	switch {
	case p != nil && p.Reason == upstream.InvalidFile:
		return condition{Poor, "up, but has files that are broken"}
	case p != nil && !state.Connected:
		return condition{Bad, "down"}
	case p != nil && p.Failing:
		return condition{Bad, "connected, but gets fail"}
	case p != nil:
		return condition{Poor, "up, but its list is stale"}
	case !state.Listed:
		return condition{Poor, "starting"}
	case !state.Connected:
		return condition{Poor, "not connected"}
	}
	return condition{Good, "up"}
}

// trouble returns what operators are shown of a problem.
func trouble(p *upstream.Problem) Trouble {
	if p == nil {
		return Trouble{}
	}
	cause := p.Cause()
	return Trouble{
		Reason: string(p.Reason), Since: &p.Since, Failing: p.Failing,
		Cause: cause.Problem, Remedy: cause.Remedy,
	}
}

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

// Readiness is the body of /readyz. The console also shows it.
type Readiness struct {
	Ready bool `json:"ready"`
	// Draining is true once the gateway is stopping.
	Draining bool       `json:"draining,omitempty"`
	Version  string     `json:"version,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Entries  int        `json:"entries,omitempty"`
	// Streams counts the clients' open streams, Waiting the server requests without a reply.
	Streams   int              `json:"streams,omitempty"`
	Waiting   int              `json:"waiting,omitempty"`
	Upstreams []UpstreamHealth `json:"upstreams,omitempty"`
	// Store is the state of the store that replicas share; nil without one.
	Store *StoreHealth `json:"store,omitempty"`
	// AuditProblem explains why the audit log cannot be written; empty if it can.
	AuditProblem string `json:"audit_problem,omitempty"`
	// Reports describe findings in the catalog that a person should fix.
	Reports []string `json:"reports,omitempty"`
	// Configuration is the result of the last load.
	Configuration *ConfigurationState `json:"configuration,omitempty"`
	// ConfigurationHash is a hash of the texts in use. Equal hashes of replicas mean equal
	// configurations.
	ConfigurationHash string `json:"configuration_hash,omitempty"`
}

// StoreHealth tells whether the store that replicas share can be used, and since when. Without the
// store each replica counts limits alone and stays ready.
type StoreHealth struct {
	Here  bool      `json:"here"`
	Since time.Time `json:"since"`
	// Evicts is the store's eviction policy if it may drop limits when its memory is full;
	// otherwise empty.
	Evicts string `json:"evicts,omitempty"`
}

// ConfigurationState describes since when the configuration is in use, and why a later one is not.
type ConfigurationState struct {
	Loaded time.Time `json:"loaded"`
	// Refused and Problems are set if the last loaded configuration is not in use, or only partly
	// in use. If it is partly in use, LastGood and Out are the files with errors.
	Refused  *time.Time `json:"refused,omitempty"`
	Problems []string   `json:"problems,omitempty"`
	// Warnings are the warnings of the configuration in use, each with location and remedy; see
	// [Loaded].
	Warnings []string `json:"warnings,omitempty"`
	// LastGood are the team files with an error whose previous text is in use. Out are the team
	// files with an error and without a previous text. Teams maps the teams of both to "kept" or
	// "out".
	LastGood []string          `json:"last_good,omitempty"`
	Out      []string          `json:"out,omitempty"`
	Teams    map[string]string `json:"teams,omitempty"`
	// Files are the files of the configuration in use. Diagnostics are from the last load.
	Files       []LoadedFile        `json:"-"`
	Diagnostics []config.Diagnostic `json:"-"`
}

// LoadedFile is a file of the configuration in use.
type LoadedFile struct {
	config.File

	// Loaded is when this text came into use.
	Loaded time.Time `json:"loaded"`
	// Kept is true if the file has errors now and this is its previous text.
	Kept bool `json:"kept,omitempty"`
}

// UpstreamHealth is the state of one upstream.
type UpstreamHealth struct {
	Name string `json:"name"`
	Team string `json:"team"`
	// Place is the location of the upstream's block.
	Place     string `json:"place"`
	Connected bool   `json:"connected"`
	// Listed is true once its prompts were listed. They stay listed while it is down.
	Listed   bool   `json:"listed"`
	Revision string `json:"revision,omitempty"`
	Prompts  int    `json:"prompts"`
	// Problem is nil if the list is fresh and gets succeed.
	*upstream.Problem

	// Cause is a clause that explains the problem, Remedy a clause about the next step. They
	// contain no secrets of the configuration, but may contain addresses and server texts.
	Cause  string `json:"cause,omitempty"`
	Remedy string `json:"remedy,omitempty"`

	// Condition describes the state for people, in a few words. Level is its urgency.
	Condition string `json:"-"`
	Level     Level  `json:"-"`
}

// maxWarnings bounds the shown warnings. A team's file may cause any number.
const maxWarnings = 100

// IsInUse reports whether the last loaded configuration is in use, apart from team files with
// errors.
func (c *ConfigurationState) IsInUse() bool { return c.Refused == nil || c.Refused.Equal(c.Loaded) }

// Loaded returns the state after a successful load. before is the previous state, nil at a start.
// The state contains at most 100 warnings, and counts the rest.
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

// Refused returns the state after a configuration was refused. The error's text must contain
// nothing sensitive.
func Refused(inUse *ConfigurationState, at time.Time, err error) *ConfigurationState {
	state := *inUse
	state.Refused, state.Problems = &at, strings.Split(err.Error(), "\n")
	state.Diagnostics = []config.Diagnostic{{Severity: config.SeverityError, Summary: err.Error()}}
	if refused, ok := errors.AsType[*config.Error](err); ok {
		state.Diagnostics = refused.Diagnostics.All()
	}
	return &state
}

// startingBound is the time that a gateway waits after its start for upstreams that neither answer
// nor fail.
const startingBound = 5 * time.Second

// IsReady reports whether a gateway is ready that has run for the given time: each upstream has
// answered, failed or had five seconds, or its list is known from an earlier process. It is ready
// even if all have failed, because a restart would not help, and clients need the errors.
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

// Health returns the state of a gateway according to a snapshot, except whether it is ready.
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

// upstreamHealth returns the state of the upstream at index i of a snapshot.
func upstreamHealth(s *snapshot.Snapshot, i int) UpstreamHealth {
	u, state := &s.Upstreams[i], s.States[i]
	h := UpstreamHealth{
		Name: u.Name, Team: u.Team, Place: u.Place.String(), Connected: state.Connected,
		Listed: state.Listed, Revision: state.Revision, Prompts: len(s.Definitions(i)),
		Problem: state.Problem,
	}
	h.Level, h.Condition = conditionOf(state)
	if h.Problem != nil {
		cause := h.Problem.Cause()
		h.Cause, h.Remedy = cause.Problem, cause.Remedy
	}
	return h
}

// Level is the urgency of a condition. Its text is a class in the console's style sheet.
type Level uint8

// The levels, most urgent first.
const (
	Bad Level = iota
	Poor
	Good
)

func (l Level) String() string { return [...]string{"bad", "poor", "good"}[l] }

// conditionOf returns the most important fact about an upstream's state, and its urgency.
func conditionOf(state *upstream.State) (Level, string) {
	p := state.Problem
	switch {
	case p != nil && p.Reason == upstream.InvalidFile:
		return Poor, "up, but has files that are broken"
	case p != nil && !state.Connected:
		return Bad, "down"
	case p != nil && p.Failing:
		return Bad, "connected, but gets fail"
	case p != nil:
		return Poor, "up, but its list is stale"
	case !state.Listed:
		return Poor, "starting"
	case !state.Connected:
		return Poor, "not connected"
	}
	return Good, "up"
}

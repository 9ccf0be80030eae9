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

// Readiness is the body of /readyz, and the content of the console's overview. Callers who are not
// operators get only Ready.
type Readiness struct {
	Ready bool `json:"ready"`
	// Draining is true while the gateway is stopping.
	Draining bool       `json:"draining,omitempty"`
	Version  string     `json:"version,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Entries  int        `json:"entries,omitempty"`
	// Streams is the number of the clients' open streams.
	Streams int `json:"streams,omitempty"`
	// Waiting is the number of server requests that wait for a client's reply.
	Waiting   int              `json:"waiting,omitempty"`
	Upstreams []UpstreamHealth `json:"upstreams,omitempty"`
	// Store is the state of the store that replicas share. It is nil if there is no store.
	Store *StoreHealth `json:"store,omitempty"`
	// AuditProblem explains why the audit log cannot be written. It is empty if the log can be written.
	AuditProblem string `json:"audit_problem,omitempty"`
	// Reports describe findings in the catalog that a person should fix.
	Reports []string `json:"reports,omitempty"`
	// Configuration is the result of the last load.
	Configuration *ConfigurationState `json:"configuration,omitempty"`
	// ConfigurationHash is a hash of the files in use. Replicas with equal hashes have equal
	// configurations.
	ConfigurationHash string `json:"configuration_hash,omitempty"`
}

// StoreHealth is the state of the store that replicas share. While the store is unavailable, each
// replica counts limits alone and stays ready.
type StoreHealth struct {
	// Here is true if the store is available.
	Here bool `json:"here"`
	// Since is the time of the last change of Here.
	Since time.Time `json:"since"`
	// Evicts is the store's eviction policy, if the store may drop limits when its memory is full. It
	// is empty for a safe policy.
	Evicts string `json:"evicts,omitempty"`
}

// ConfigurationState is the state of the configuration in use and the result of the last load.
type ConfigurationState struct {
	// Loaded is the time when the configuration in use was loaded.
	Loaded time.Time `json:"loaded"`
	// Refused is the time of the last load, or nil if its configuration is completely in use.
	Refused *time.Time `json:"refused,omitempty"`
	// Problems are the errors of the load at Refused.
	Problems []string `json:"problems,omitempty"`
	// Warnings are the warnings of the configuration in use, each with location and remedy. There are
	// at most 100, and a line with the number of further warnings.
	Warnings []string `json:"warnings,omitempty"`
	// LastGood are the team files with errors whose previous text is in use.
	LastGood []string `json:"last_good,omitempty"`
	// Out are the team files with errors that are left out, because there is no previous text.
	Out []string `json:"out,omitempty"`
	// Teams maps the teams of the files in LastGood to "kept", and of the files in Out to "out".
	Teams map[string]string `json:"teams,omitempty"`
	// Files are the files of the configuration in use.
	Files []LoadedFile `json:"-"`
	// Diagnostics are from the last load.
	Diagnostics []config.Diagnostic `json:"-"`
}

// LoadedFile is a file of the configuration in use.
type LoadedFile struct {
	config.File

	// Loaded is the time when this text of the file came into use.
	Loaded time.Time `json:"loaded"`
	// Kept is true if the file now has errors and its previous text is in use.
	Kept bool `json:"kept,omitempty"`
}

// UpstreamHealth is the state of one upstream.
type UpstreamHealth struct {
	Name string `json:"name"`
	Team string `json:"team"`
	// Place is the location of the upstream's block, as PATH:LINE.
	Place     string `json:"place"`
	Connected bool   `json:"connected"`
	// Listed is true after the first successful list, even while the upstream is down.
	Listed   bool   `json:"listed"`
	Revision string `json:"revision,omitempty"`
	Prompts  int    `json:"prompts"`
	// Problem is nil if the list is fresh and gets succeed.
	*upstream.Problem

	// Cause is a clause that explains the problem. It contains no secrets of the configuration, but may
	// contain addresses and texts of the server.
	Cause string `json:"cause,omitempty"`
	// Remedy is a clause about the operator's next step, with the same possible contents as Cause.
	Remedy string `json:"remedy,omitempty"`

	// Condition describes the state for people, in a few words.
	Condition string `json:"-"`
	// Level is the urgency of the condition.
	Level Level `json:"-"`
}

// maxWarnings bounds [ConfigurationState.Warnings]: a team's file may cause any number of warnings.
const maxWarnings = 100

// IsInUse reports whether the last loaded configuration is in use, except for team files with errors.
func (c *ConfigurationState) IsInUse() bool { return c.Refused == nil || c.Refused.Equal(c.Loaded) }

// Loaded returns the state after a successful load. before is the previous state, or nil at the start.
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
		since, ok := loaded[file]
		if !ok {
			since = at
		}
		state.Files = append(state.Files, LoadedFile{File: file, Loaded: since})
	}
	return state
}

// Refused returns the state after a configuration was refused with an error. Operators see the text of
// the error, so it must not contain secrets.
func Refused(inUse *ConfigurationState, at time.Time, err error) *ConfigurationState {
	state := *inUse
	state.Refused, state.Problems = &at, strings.Split(err.Error(), "\n")
	state.Diagnostics = []config.Diagnostic{{Severity: config.SeverityError, Summary: err.Error()}}
	if refused, ok := errors.AsType[*config.Error](err); ok {
		state.Diagnostics = refused.Diagnostics.All()
	}
	return &state
}

// startingBound is the time for which a gateway waits for slow upstreams after its start.
const startingBound = 5 * time.Second

// IsReady reports whether a gateway is ready that has been running for the given time. It is ready
// after startingBound, or as soon as each upstream has been listed, has failed, or has a list from an
// earlier process. It is ready even if all upstreams have failed: a restart would not help, and clients
// need the errors.
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

// Health returns the parts of [Readiness] that follow from a snapshot: entries, reports and upstreams.
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

// Level is the urgency of a condition. Its String is a class in the console's style sheet.
type Level uint8

// The levels, the most urgent first.
const (
	Bad Level = iota
	Poor
	Good
)

func (l Level) String() string { return [...]string{"bad", "poor", "good"}[l] }

// conditionOf returns the condition of an upstream in a few words, and its urgency.
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

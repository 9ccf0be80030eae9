package client

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// elicitedLifetime is how long after its call the end of an elicitation is awaited.
	elicitedLifetime = 10 * time.Minute
	// maxElicited bounds the elicitations whose end a session awaits, maxElicitedEach those of one caller, and maxElicitedID
	// their ids, in bytes.
	maxElicited     = 512
	maxElicitedEach = 16
	maxElicitedID   = 1024
	// maxElicitedParams bounds the params of the notification that one has ended, in bytes: it waits for a stream of each caller. Of larger
	// ones the id is passed on, which is all that MCP has in them.
	maxElicitedParams = 4 << 10
)

// elicited is an elicitation by URL for which the server refused a call. It goes on after the call, and a client that hears
// of its end makes the call again.
type elicited struct {
	id, caller string
	notify     func(method string, params jsontext.Value)
	until      time.Time
}

// awaitElicited remembers whom to tell of the end of the elicitations for which a call was refused (2025-11-25, Elicitation,
// "URL Elicitation Required Error").
func (rs *relays) awaitElicited(relay *Relay, refusal error) {
	err, ok := errors.AsType[*wire.Error](refusal)
	if !ok || err.Code != wire.URLElicitationRequired || relay.NotifyLater == nil {
		return
	}
	elicitations, parseErr := wire.ParseArray(wire.Members(err.Data).Get("elicitations"))
	if parseErr != nil {
		return
	}
	until := time.Now().Add(elicitedLifetime)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, elicitation := range elicitations[:min(len(elicitations), maxElicitedEach)] {
		if id, ok := wire.Members(elicitation).Text("elicitationId"); ok && len(id) <= maxElicitedID {
			rs.addElicitedLocked(elicited{id, relay.Caller, relay.NotifyLater, until})
		}
	}
}

// addElicitedLocked makes room at the expense of the same caller first.
func (rs *relays) addElicitedLocked(e elicited) {
	mine := func(other elicited) bool { return other.caller == e.caller }
	count := 0
	for _, other := range rs.elicited {
		if mine(other) {
			count++
		}
	}
	switch {
	case count >= maxElicitedEach:
		oldest := slices.IndexFunc(rs.elicited, mine)
		rs.elicited = slices.Delete(rs.elicited, oldest, oldest+1)
	case len(rs.elicited) >= maxElicited:
		rs.elicited = slices.Delete(rs.elicited, 0, 1)
	}
	rs.elicited = append(rs.elicited, e)
}

// endElicited tells all to whom the server gave an elicitation's id that it has ended.
func (rs *relays) endElicited(id string, m *wire.Message) {
	now := time.Now()
	var told []elicited
	rs.mu.Lock()
	rs.elicited = slices.DeleteFunc(rs.elicited, func(e elicited) bool {
		if e.id == id && e.until.After(now) {
			told = append(told, e)
		}
		return e.id == id || !e.until.After(now)
	})
	rs.mu.Unlock()
	for _, e := range told {
		e.notify(m.Method, elicitedParams(id, m))
	}
}

// elicitedParams returns the params of a notification that an elicitation has ended, which do not refer to the message.
func elicitedParams(id string, m *wire.Message) jsontext.Value {
	if len(m.Params) > maxElicitedParams {
		return wire.Object{}.With("elicitationId", wire.Quote(id)).JSON()
	}
	return bytes.Clone(m.Params)
}

// awaitsElicitedUntil returns until when the end of an elicitation is awaited; the zero time if none is.
func (rs *relays) awaitsElicitedUntil() (until time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.elicited) > 0 {
		until = rs.elicited[len(rs.elicited)-1].until
	}
	return until
}

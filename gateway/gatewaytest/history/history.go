// Package history records what clients of some gateways did while these were broken, and checks it
// afterwards against what is promised: [Model.Check]. It needs neither clients nor gateways; a rig
// of processes and a simulation share it.
package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Names of operations. The first are those of a rig, which is client 0.
const (
	// Change is another content of a part of what gateways serve: of a server's list, or of the
	// rules, once all replicas have them.
	Change = "change"
	// Rules are in force at a replica, by a start or a reload, once the operation has ended.
	Rules = "rules"
	// Started is a replica without a memory of the time before.
	Started = "started"
	// Fault begins, and Healed says that the causes of all are gone.
	Fault  = "fault"
	Healed = "healed"
	// ReplicaFault begins the name of a fault in which a replica is stopped or killed.
	ReplicaFault = "replica "

	Begin  = "begin"
	Opened = "opened"
	Ended  = "ended"
	Told   = "told"
	List   = "list"
	Get    = "get"
	// Complete completes an argument of a prompt, and Read reads a file of a skill or a link.
	Complete = "complete"
	Read     = "read"
)

// RateLimited is the error of a get that a limit refused.
const RateLimited = "rate_limited"

// Op is one operation, as data: who did what where and when, and what became of it.
type Op struct {
	Client int
	// Who is the principal of the client.
	Who  string
	Name string
	// At is the number of a replica, from 1.
	At int
	// Of is a part of what is served, a fault, the name of a prompt, or the URI of a file.
	Of string
	// Sent and Received are when it began and ended, since the begin of the history.
	Sent, Received time.Duration
	// Seen is the content of each part that is in a list, or the new one of a change.
	Seen map[string]string
	// Names are the prompts in an answer that rules show to some only, or that it is about; of a
	// change, the entries that its part owns from then on. Shown are those that Rules show, by
	// principal.
	Names []string
	Shown map[string][]string
	// To are the principals whose view a change is in; nil for all.
	To []string
	// Owner is the server that answered a get.
	Owner string
	Error string
}

func (o *Op) listed() bool { return o.Name == List && o.Error == "" }

func (o *Op) concerns(who string) bool { return o.To == nil || slices.Contains(o.To, who) }

// String returns a line.
func (o *Op) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%9.3f %9.3f  ", o.Sent.Seconds(), o.Received.Seconds())
	if o.Client > 0 {
		fmt.Fprintf(&text, "client %d (%s) ", o.Client, o.Who)
	}
	fmt.Fprintf(&text, "%s %s", o.Name, o.Of)
	if o.At > 0 {
		fmt.Fprintf(&text, " at %d", o.At)
	}
	for _, part := range slices.Sorted(maps.Keys(o.Seen)) {
		fmt.Fprintf(&text, " %s=%s", part, o.Seen[part])
	}
	for _, more := range []string{strings.Join(o.Names, ","), o.Owner, o.Error} {
		if more != "" {
			text.WriteString(" " + more)
		}
	}
	return text.String()
}

// History is operations in the order in which they ended.
type History []Op

// String returns a line for each operation.
func (h History) String() string {
	var text strings.Builder
	for i := range h {
		text.WriteString(h[i].String() + "\n")
	}
	return text.String()
}

// Failed returns the operations with an error.
func (h History) Failed() (all History) {
	for _, o := range h {
		if o.Error != "" {
			all = append(all, o)
		}
	}
	return all
}

// within returns the operations that began and ended in a time.
func (h History) within(from, to time.Duration) (all History) {
	for _, o := range h {
		if o.Sent >= from && o.Received <= to {
			all = append(all, o)
		}
	}
	return all
}

// between returns the operations of a client, and of the rig, that ended in a time.
func (h History) between(client int, from, to time.Duration) (all History) {
	for _, o := range h {
		if (o.Client == 0 || o.Client == client) && o.Received >= from && o.Received <= to {
			all = append(all, o)
		}
	}
	return all
}

// Recorder collects a history. Its methods are safe for concurrent use.
type Recorder struct {
	began time.Time

	mu  sync.Mutex // guards ops
	ops History
}

// NewRecorder returns one whose history begins now.
func NewRecorder() *Recorder { return &Recorder{began: time.Now()} }

// Note adds an operation that was begun at a time and has ended.
func (r *Recorder) Note(o Op, sent time.Time, err error) {
	if err != nil {
		o.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o.Sent, o.Received = sent.Sub(r.began), time.Since(r.began)
	r.ops = append(r.ops, o)
}

// SoFar returns what has ended until now.
func (r *Recorder) SoFar() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.ops)
}

package cluster

import (
	"testing"
	"time"
)

// stage is a settlement and the time, in the words of a test.
type stage struct {
	t      *testing.T
	s      *settlement
	now    time.Time
	number uint64
	others map[string]record
	known  bool
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return &stage{t: t, s: newSettlement(), now: time.Unix(1e9, 0), others: map[string]record{}, known: true}
}

func (st *stage) serve(label, list string) {
	st.number++
	st.s.change(st.now, st.number, map[string]string{label: list}, true)
}

func (st *stage) other(lists map[string]string) { st.others["b"] = record{Lists: lists} }

func (st *stage) after(d time.Duration) { st.now = st.now.Add(d) }

// want compares, and holds who is notified.
func (st *stage) want(what string, want Verdict) (late []Unsettled) {
	st.t.Helper()
	got, late := st.s.compare(st.now, st.others, st.known)
	if got != want {
		st.t.Errorf("%s: %+v, want %+v", what, got, want)
	}
	return late
}

type lists = map[string]string

func TestSettlement_TellsThoseAgainWhoWereToldTooEarly(t *testing.T) {
	st := newStage(t)
	st.other(lists{"up": "1", "other": "1"})
	st.serve("up", "1")
	st.serve("other", "1")
	st.want("both", Verdict{Announce: 2})
	st.serve("up", "2") // 3
	st.after(settleTimeout - 1)
	st.want("within a second", Verdict{})
	st.after(1)
	st.want("after a second", Verdict{Announce: 3, Unsettled: 3})
	st.after(2 * time.Second)
	st.serve("other", "2") // 4
	st.other(lists{"up": "1", "other": "2"})
	st.want("another list", Verdict{Announce: 4, Unsettled: 3})
	st.other(lists{"up": "2", "other": "2"})
	st.want("settled", Verdict{Again: true, Since: 3})
	st.after(time.Minute)
	st.want("later", Verdict{})
}

func TestSettlement_WithoutTheStore(t *testing.T) {
	st := newStage(t)
	st.known = false
	st.serve("up", "1")
	st.want("at once", Verdict{})
	st.after(settleTimeout)
	st.want("after a second", Verdict{Announce: 1, Unsettled: 1})
	st.after(time.Hour)
	if late := st.want("an hour", Verdict{}); late != nil {
		t.Errorf("%v is reported, want nothing while others cannot be asked", late)
	}
	st.known = true
	st.other(lists{"up": "0"})
	st.want("b has an old list", Verdict{})
	st.other(lists{"up": "1"})
	st.want("settled", Verdict{Again: true, Since: 1})
}

func TestSettlement_ReplicaThatComesBackWithAnotherList(t *testing.T) {
	st := newStage(t)
	st.serve("up", "1")
	st.serve("up", "2")
	st.want("alone", Verdict{Announce: 2})
	st.after(time.Minute)
	st.other(lists{"up": "1"})
	st.want("b comes back with an old list", Verdict{})
	st.other(lists{"up": "2"})
	st.want("b has the new one", Verdict{Again: true, Since: 2})
	// One that had the new list before it was seen says that it was behind.
	st.others["c"] = record{Lists: lists{"up": "2"}, Behind: lists{"up": "x"}}
	st.want("c was behind", Verdict{Again: true, Since: 2})
	st.want("the same again", Verdict{})
	st.others["c"] = record{Lists: lists{"up": "2"}, Behind: lists{"up": "y"}}
	st.want("c was behind once more", Verdict{Again: true, Since: 2})
}

func TestSettlement_ConfigurationAndUpstreamsThatAreGone(t *testing.T) {
	st := newStage(t)
	st.other(lists{"": "old", "up": "1"})
	st.s.change(st.now, 1, lists{"": "old", "up": "1"}, false) // before the gateway has started
	st.want("the catalog fills", Verdict{})
	st.s.change(st.now, 2, lists{"": "new", "up": ""}, true)
	st.want("b has not reloaded", Verdict{})
	st.other(lists{"": "new"})
	st.want("b has reloaded", Verdict{Announce: 2})
}

func TestSettlement_SaysWhereItWasBehind(t *testing.T) {
	st := newStage(t)
	st.s.change(st.now, 1, lists{"up": "1", "same": "1", "late": "2"}, false)
	st.s.rejoin(st.now, map[string]record{"b": {Lists: lists{"up": "2", "same": "1", "late": "2"}}}, map[string]bool{"late": true})
	behind := st.s.record(st.now, nil).Behind
	if len(behind) != 2 || behind["up"] == "" || behind["late"] == "" {
		t.Errorf("behind %v, want up, which differs, and late, which changed meanwhile", behind)
	}
	st.after(behindFor)
	if behind := st.s.record(st.now, nil).Behind; len(behind) != 0 {
		t.Errorf("behind %v after %v, want nothing", behind, behindFor)
	}
}

func TestBreaker(t *testing.T) {
	now := time.Unix(1e9, 0)
	var b breaker
	report := func(after time.Duration, err error, want position) {
		t.Helper()
		now = now.Add(after)
		if b.report(now, err); b.position != want {
			t.Errorf("position %d after %v, want %d", b.position, err, want)
		}
	}
	report(0, ErrGone, open)
	report(time.Second, nil, closed)
	report(10*time.Second, errLate, halfOpen)
	report(maxLate/2, errLate, halfOpen)
	report(0, nil, closed) // it has cooled down
	report(time.Second, errLate, halfOpen)
	report(maxLate, errLate, open)
	report(0, nil, open) // for longer, the second time
	report(2*minCoolDown, nil, closed)
	report(0, ErrGone, open)
	for range 10 {
		report(maxCoolDown, nil, closed)
		report(0, ErrGone, open)
	}
	report(maxCoolDown-1, nil, open)
	report(1, nil, closed)
}

// The others were compared with the record that was written before.
func TestPeers_DoNotTakeAChangeDuringAHeartbeatForSettled(t *testing.T) {
	var notified []Verdict
	p := &Peers{
		settlement: newSettlement(), wake: make(chan struct{}, 1), meanwhile: map[string]bool{},
		opts: Options{Notify: func(v Verdict) { notified = append(notified, v) }},
	}
	p.Changed(1, lists{"up": "1"}, true)
	p.decide(map[string]record{}, true)
	if len(notified) > 0 {
		t.Errorf("notified %+v of a list that no heartbeat has compared", notified)
	}
	p.meanwhile = map[string]bool{} // as the next heartbeat does
	p.decide(map[string]record{}, true)
	if len(notified) != 1 || notified[0].Announce != 1 {
		t.Errorf("notified %+v after a heartbeat", notified)
	}
}

package history_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/promptweir/promptweir/gateway/gatewaytest/history"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

const second = time.Second

// at gives an operation the seconds in which it began and ended.
func at(sent, received float64, o Op) Op {
	o.Sent, o.Received = time.Duration(sent*1e9), time.Duration(received*1e9)
	return o
}

func change(seconds float64, content string) Op {
	return at(seconds, seconds, Op{Name: Change, Seen: map[string]string{"plain": content}, Names: []string{"entry" + content}})
}

func list(client, replica int, seconds float64, content string) Op {
	return at(seconds, seconds+0.1, Op{
		Client: client, Who: "ann", Name: List, At: replica, Seen: map[string]string{"plain": content},
	})
}

func op(client int, seconds float64, name string) Op {
	return at(seconds, seconds, Op{Client: client, Who: "ann", Name: name})
}

func rules(replica int, from, to float64, shown string) Op {
	return at(from, to, Op{Name: Rules, At: replica, Shown: map[string][]string{"ann": {shown}}})
}

func given(seconds float64, name, owner string) Op {
	o := at(seconds, seconds+0.1, Op{Client: 1, Who: "ann", Name: Get, At: 1, Of: name, Owner: owner})
	if owner == "" {
		o.Names = []string{name}
	}
	return o
}

// A history begins with a client that has the content 1. Replicas have a change promptly within half a
// second; then clients have it after one second, and else after two.
func TestModel_NamesThePromiseThatWasNotKept(t *testing.T) {
	failed := list(1, 1, 2.5, "1")
	failed.Error = "refused"
	stranger := change(2, "2")
	stranger.To = []string{"bob"}
	found := list(1, 1, 2.5, "2")
	everywhere := History{change(2, "2"), list(2, 1, 2.1, "2"), list(2, 2, 2.2, "2")}
	promptly := func(then ...Op) History { return append(slices.Clone(everywhere), then...) }
	for name, test := range map[string]struct {
		want string
		then History
	}{
		"found":                                {"", promptly(found)},
		"found late":                           {"W1", promptly(list(1, 2, 3.2, "2"))},
		"found late, as replicas have it late": {"", History{change(2, "2"), list(2, 1, 2.1, "2"), list(1, 2, 3.2, "2")}},
		"found late, as a replica is stopped":  {"", promptly(at(2.6, 2.6, Op{Name: Fault, Of: ReplicaFault + "stopped"}), list(1, 2, 3.2, "2"))},
		"found late, as another is stopped":    {"W1", promptly(at(2.6, 2.6, Op{Name: Fault, At: 2, Of: ReplicaFault + "stopped"}), list(1, 2, 3.2, "2"))},
		"found late, in another fault":         {"W1", promptly(at(2.6, 2.6, Op{Name: Fault, Of: "store killed"}), list(1, 2, 3.2, "2"))},
		"found later still":                    {"W1", History{change(2, "2"), list(2, 1, 2.1, "2"), list(1, 2, 4.2, "2")}},
		"never found":                          {"W1", History{change(2, "2")}},
		"found and lost again":                 {"W1", History{change(2, "2"), list(2, 1, 2.1, "2"), found, list(1, 2, 3.5, "1")}},
		"could not list":                       {"W1", promptly(failed)},
		"could not list at a stopped replica":  {"", promptly(at(2.4, 2.4, Op{Name: Fault, At: 1, Of: ReplicaFault + "stopped"}), failed, list(1, 2, 3.2, "2"))},
		"never found after a stopped replica":  {"W1", promptly(at(2.4, 2.4, Op{Name: Fault, At: 1, Of: ReplicaFault + "stopped"}), failed)},
		"the first of two":                     {"W1", History{change(2, "2"), change(2.5, "3"), found}},
		"at the end":                           {"", History{change(9.5, "2")}},
		"after another stream was opened":      {"", promptly(op(1, 2.8, Opened), list(1, 1, 3.5, "2"))},
		"told three times":                     {"", promptly(op(1, 2.1, Told), found, op(1, 3, Told), op(1, 4, Told))},
		"told for nothing":                     {"W2", History{op(1, 7, Told)}},
		"told too late":                        {"W2", promptly(op(1, 2.1, Told), found, op(1, 5, Told))},
		"told late because of a fault":         {"", History{op(0, 1.8, Fault), change(2, "2"), op(0, 4, Healed), found, op(1, 7, Told)}},
		"told late while a fault lasts":        {"", History{op(0, 1.8, Fault), change(2, "2"), found, op(1, 7, Told), op(0, 8, Healed)}},
		"told by one that has just started":    {"", History{at(4, 4, Op{Name: Started, At: 1}), at(7, 7, Op{Client: 1, Who: "ann", Name: Told, At: 1})}},
		"told of a fault alone":                {"W2", History{op(0, 3, Fault), op(0, 4, Healed), op(1, 7, Told)}},
		"told of others' change":               {"W2", History{stranger, op(1, 3, Told)}},
		"told of others' change in a fault":    {"", History{op(0, 1.8, Fault), stranger, op(0, 4, Healed), op(1, 7, Told)}},
		"told of others' on a new stream":      {"", History{stranger, op(1, 4, Opened), op(1, 5, Told)}},
		"gone back":                            {"W4", promptly(found, list(2, 1, 3, "2"), list(2, 1, 4, "1"))},
		"gone back at the same time":           {"", promptly(found, list(3, 3, 3, "2"), list(3, 3, 3.05, "1"))},
		"another replica is behind":            {"", History{change(2, "2"), list(2, 1, 2.1, "2"), found, list(2, 2, 4, "1")}},
		"started anew":                         {"", promptly(found, at(4, 4, Op{Name: Started, At: 1}), list(2, 1, 4, "1"))},
		"an older content again":               {"", History{change(2, "2"), change(2.1, "1"), list(1, 1, 3, "2"), list(1, 1, 3.5, "1")}},
		"shown":                                {"", History{rules(1, 2, 3, "a"), given(4, "a", "")}},
		"shown no more":                        {"W5", History{rules(1, 2, 3, "a"), rules(1, 4, 5, "b"), given(6, "a", "")}},
		"shown elsewhere":                      {"W5", History{rules(1, 2, 3, "b"), rules(2, 2, 3, "a"), given(6, "a", "")}},
		"shown during a reload":                {"", History{rules(1, 2, 3, "a"), given(4.1, "a", ""), rules(1, 4, 5, "b")}},
		"owner":                                {"", History{given(2, "entry1", "plain")}},
		"foreign owner":                        {"W6", History{given(2, "entry1", "spare")}},
		"former owner":                         {"W6", promptly(found, given(4, "entry1", "plain"))},
		"former owner, which is not known yet": {"", History{change(2, "2"), given(2.05, "entry1", "plain"), found}},
	} {
		t.Run(name, func(t *testing.T) {
			h := slices.Concat(History{op(1, 0, Begin), change(0, "1"), op(1, 0.8, Opened), list(1, 1, 1, "1")}, test.then, History{op(9, 10, Ended)})
			m := Model{Replicas: 2, Prompt: second / 2, Soon: second, Later: 2 * second, Aftermath: 30 * second}
			var letters []string
			found := m.Check(h)
			for _, v := range found {
				letters = append(letters, v.Letter)
			}
			upstreamtest.Equal(t, test.want, strings.Join(letters, " "), "violations:\n%v", found)
		})
	}
}

// Gets of a limit of 10 each second, and a burst of 5.
func TestModel_HoldsARateInEachWindow(t *testing.T) {
	fault := func(h History) History { return append(History{op(0, 0, Fault), op(0, 9, Healed)}, h...) }
	load := func(sent, answered int) (h History) {
		for i := range sent * 10 {
			o := given(float64(i)/float64(sent), "limited", "")
			if o.Names = nil; i*answered/sent == (i+1)*answered/sent {
				o.Error = RateLimited
			}
			h = append(h, o)
		}
		return h
	}
	for name, test := range map[string]struct {
		history History
		kept    bool
	}{
		"as configured":                {load(30, 10), true},
		"little is sent":               {load(5, 5), true},
		"twice":                        {load(30, 20), false},
		"half":                         {load(30, 5), false},
		"twice, while replicas count":  {fault(load(30, 20)), true},
		"thrice, while replicas count": {fault(load(30, 30)), false},
		"half, while replicas count":   {fault(load(30, 5)), true},
		"as configured, after a pause": {slices.DeleteFunc(load(30, 10), func(o Op) bool { return o.Sent > 4*second && o.Sent < 6*second }), true},
	} {
		t.Run(name, func(t *testing.T) {
			found := Model{Replicas: 2, Limits: []Limit{{Prompt: "limited", Rate: 10, Burst: 5}}}.Check(test.history)
			if (len(found) == 0) != test.kept || len(found) > 0 && found[0].Letter != "L" {
				t.Errorf("violations %v, kept should be %t", found, test.kept)
			}
		})
	}
}

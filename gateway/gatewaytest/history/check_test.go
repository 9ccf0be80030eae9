package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/promptweir/promptweir/gateway/gatewaytest/history"
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

// A history begins with a client that has the content 1.
func TestModel_NamesThePromiseThatWasNotKept(t *testing.T) {
	failed := list(1, 1, 4, "1")
	failed.Error = "refused"
	stranger := change(2, "2")
	stranger.To = []string{"bob"}
	for name, test := range map[string]struct {
		want string
		then History
	}{
		"told and found":                        {"", History{change(2, "2"), op(1, 3, Told), list(1, 2, 3, "2")}},
		"told again":                            {"", History{change(2, "2"), op(1, 3, Told), list(1, 2, 3, "1"), op(1, 4, Told), list(1, 2, 4, "2")}},
		"told, not found":                       {"W1", History{change(2, "2"), op(1, 3, Told), list(1, 2, 3, "1")}},
		"found and lost again":                  {"W1", History{change(2, "2"), op(1, 3, Told), list(1, 1, 3, "2"), list(1, 2, 4, "1")}},
		"told, could not list":                  {"W1", History{change(2, "2"), op(1, 3, Told), failed}},
		"told for nothing":                      {"W2", History{op(1, 7, Told), list(1, 1, 7, "1")}},
		"told twice":                            {"W2", History{change(2, "2"), op(1, 3, Told), list(1, 1, 3, "2"), op(1, 7, Told)}},
		"told twice, but of faults":             {"", History{change(2, "2"), op(1, 3, Told), list(1, 1, 3, "2"), op(0, 2.2, Fault), op(0, 4, Healed), op(1, 7, Told)}},
		"told twice, but of a fault that lasts": {"", History{change(2, "2"), op(1, 3, Told), list(1, 1, 3, "2"), op(0, 2.2, Fault), op(1, 7, Told), op(0, 8, Healed)}},
		"told by who has just started": {"", History{
			op(0, 3, Fault), at(4, 4, Op{Name: Started, At: 1}), op(0, 4, Healed), at(7, 7, Op{Client: 1, Who: "ann", Name: Told, At: 1}),
		}},
		"told of others' change in a fault": {"", History{op(0, 1.8, Fault), stranger, op(0, 4, Healed), op(1, 7, Told), list(1, 1, 7, "1")}},
		"told of a fault alone":             {"W2", History{op(0, 3, Fault), op(0, 4, Healed), op(1, 7, Told), list(1, 1, 7, "1")}},
		"told of others' change":            {"W2", History{stranger, op(1, 7, Told), list(1, 1, 7, "1")}},
		"never told":                        {"W3", History{change(2, "2")}},
		"told of the first of two":          {"W3", History{change(2, "2"), change(2.5, "3"), op(1, 3, Told), list(1, 2, 3, "2")}},
		"gone back":                         {"W4", History{change(2, "2"), op(1, 3, Told), list(2, 1, 3, "2"), list(2, 1, 4, "1"), list(1, 1, 5, "2")}},
		"gone back at the same time": {"", History{
			change(2, "2"), op(1, 3, Told), list(2, 1, 3, "2"), list(2, 1, 3.05, "1"), list(1, 1, 5, "2"),
		}},
		"another replica is behind": {"", History{change(2, "2"), op(1, 3, Told), list(2, 1, 3, "2"), list(2, 2, 4, "1"), list(1, 1, 5, "2")}},
		"started anew": {"", History{
			change(2, "2"), op(1, 3, Told), list(2, 1, 3, "2"), at(4, 4, Op{Name: Started, At: 1}), list(2, 1, 4, "1"), list(1, 1, 5, "2"),
		}},
		"an older content again": {"", History{change(2, "2"), change(2.1, "1"), op(1, 3, Told), list(1, 1, 3, "2"), list(1, 1, 4, "1")}},
		"shown":                  {"", History{rules(1, 2, 3, "a"), given(4, "a", "")}},
		"shown no more":          {"W5", History{rules(1, 2, 3, "a"), rules(1, 4, 5, "b"), given(6, "a", "")}},
		"shown elsewhere":        {"W5", History{rules(1, 2, 3, "b"), rules(2, 2, 3, "a"), given(6, "a", "")}},
		"shown during a reload":  {"", History{rules(1, 2, 3, "a"), given(4.1, "a", ""), rules(1, 4, 5, "b")}},
		"owner":                  {"", History{given(2, "entry1", "plain")}},
		"foreign owner":          {"W6", History{given(2, "entry1", "spare")}},
		"former owner": {"W6", History{
			change(2, "2"), op(1, 3, Told), list(1, 1, 3, "2"), given(4, "entry1", "plain"),
		}},
		"former owner, which is not known yet": {"", History{change(2, "2"), given(4, "entry1", "plain"), op(1, 5, Told), list(1, 1, 5, "2")}},
	} {
		t.Run(name, func(t *testing.T) {
			h := slices.Concat(History{op(1, 0, Begin), change(0, "1"), op(1, 0.8, Opened), list(1, 1, 1, "1")}, test.then, History{op(0, 10, Quiet)})
			found := Model{Replicas: 2, Again: second / 2, Aftermath: 30 * second}.Check(h)
			var letters []string
			for _, v := range found {
				letters = append(letters, v.Letter)
			}
			if got := strings.Join(letters, " "); got != test.want {
				t.Errorf("violations %q, want %q:\n%v", got, test.want, found)
			}
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

func TestHistory_SaysWhoIsStale(t *testing.T) {
	failed := list(3, 1, 2, "2")
	failed.Error = "refused"
	h := History{op(1, 0, Begin), op(2, 0, Begin), list(2, 1, 1, "2"), list(3, 1, 1, "1"), failed, list(4, 1, 1, "2"), list(4, 1, 2, "1")}
	if got := fmt.Sprint(h.Stale("plain", "2")); got != "[1 3 4]" {
		t.Errorf("stale are %s, want 1, which has listed nothing, 3, which failed, and 4, which went back", got)
	}
}

package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/client"
)

// Whatever the lists are, in any order of arrival they become the union that State promises.
func TestMergeLists_DoesNotDependOnOrderOfArrival(t *testing.T) {
	t.Parallel()
	u := config.Upstream{Name: "merged", Transport: config.StreamableHTTP, URLs: []string{"http://a", "http://b", "http://c"}, Concurrency: 1}
	definition := rapid.Map(rapid.IntRange(0, 11), func(n int) jsontext.Value { return fmt.Appendf(nil, `{"name":"%d","v":%d}`, n/2, n%2) })
	list := rapid.SliceOfN(definition, 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(list, len(u.URLs), len(u.URLs)).Draw(t, "lists")
		var states []*State
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
			c := New(u, Options{}, func() {})
			for _, i := range order {
				newLister(c.endpoints[i]).publish(t.Context(), nil) // so that the next list is a change
				newLister(c.endpoints[i]).publish(t.Context(), lists[i])
			}
			states = append(states, c.State())
		}
		for _, state := range states {
			if !cmp.Equal(state.Definitions, states[0].Definitions) || !slices.Equal(state.Differences, states[0].Differences) {
				t.Fatalf("%s: the order of arrival matters: %+v and %+v", lists, state, states[0])
			}
			checkMerged(t, lists, state)
		}
	})
}

func checkMerged(t *rapid.T, lists [][]jsontext.Value, state *State) {
	t.Helper()
	if first := lists[0]; len(state.Definitions) < len(first) || !equalLists(state.Definitions[:len(first)], first) {
		t.Errorf("%s became %s: the first endpoint's do not come first", lists, state.Definitions)
	}
	listed := newPromptIndex(state.Definitions)
	versions := map[string][]string{}
	for _, list := range lists {
		offered := newPromptIndex(list)
		for name, i := range offered.at {
			if !listed.has(name) {
				t.Errorf("%s became %s: %s is missing", lists, state.Definitions, name)
			}
			if versions[name] == nil && string(state.Definitions[listed.at[name]]) != string(list[i]) {
				t.Errorf("%s became %s: %s is not the first endpoint's that has it", lists, state.Definitions, name)
			}
			if !slices.Contains(versions[name], string(list[i])) {
				versions[name] = append(versions[name], string(list[i]))
			}
		}
	}
	for name, different := range versions {
		if slices.Contains(state.Differences, name) != (len(different) > 1) {
			t.Errorf("%s differ in %q, as to %s", lists, state.Differences, name)
		}
	}
}

func TestSameDefinition_ComparesCanonicalForms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{`{"name":"p","v":1}`, `{ "v":1, "name":"p" }`, true},
		{`{"name":"\u0070"}`, `{"name":"p"}`, true},
		{`{"v":1}`, `{"v":2}`, false},
		{`{"v":9007199254740993}`, `{"v":9007199254740992}`, false},
		{`{}`, `{"v":null}`, false},
	} {
		if got := sameDefinition([]byte(test.a), []byte(test.b)); got != test.want {
			t.Errorf("sameDefinition(%s, %s) = %v", test.a, test.b, got)
		}
	}
}

// Definitions that stay are the same memory, and none keeps in memory the page that it came in.
func TestShareDefinitions_KeepsWhatTheListBeforeHas(t *testing.T) {
	t.Parallel()
	page := func(text ...string) (list []jsontext.Value) {
		whole := []byte(strings.Join(text, ""))
		for _, part := range text {
			list, whole = append(list, whole[:len(part)]), whole[len(part):]
		}
		return list
	}
	before := shareDefinitions(nil, page(`{"name":"a"}`, `{"name":"b"}`, `{"name":"c"}`, ``))
	later := page(`{"name":"c"}`, `{"name":"b"}`, `{"name":"d"}`, `{"name":"a"}`, ``)
	shared := shareDefinitions(before, later)
	if !equalLists(shared, later) {
		t.Fatalf("the list is %s, want %s", shared, later)
	}
	for i, want := range []*byte{&before[2][0], &before[1][0], nil, &before[0][0]} {
		if got := &shared[i][0]; want != nil && got != want || got == &later[i][0] {
			t.Errorf("definition %d is other memory than before, or that of its page", i)
		}
	}
}

// A clock that is set back must not make clients wait for as long: what is compared with the time
// has a monotonic reading.
func TestEndpoint_WaitsByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	e := New(config.Upstream{URLs: []string{"http://127.0.0.1:1"}}, Options{}, func() {}).endpoints[0]
	e.markDown(t.Context(), &client.StatusError{Status: 429, RetryAfter: time.Minute}, time.Minute)
	at := e.connection.Load().retryAt
	if !strings.Contains(at.String(), " m=+") {
		t.Errorf("the next attempt is at %s, without a monotonic reading", at)
	}
	if left := time.Until(at); left <= 0 || left > time.Minute {
		t.Errorf("the next attempt is in %s", left)
	}
}

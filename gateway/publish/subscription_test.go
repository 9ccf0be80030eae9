package publish_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/publish"
	"github.com/promptweir/promptweir/gateway/snapshot/snapshottest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// taken reports whether a subscription was woken since the last time.
func taken(sub *publish.Subscription) bool {
	select {
	case <-sub.Changed():
		return true
	default:
		return false
	}
}

func TestSubscription_NotifiesAfterTheNewListCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := server("a0")
		m := run(t, team("eng", "", "", "p"), snapshottest.Upstreams{"p": p})
		sub := m.Subscribe(anyone())
		defer sub.Close()
		for i := 1; i <= 5; i++ {
			name := fmt.Sprintf("a%d", i)
			p.List(gatewaytest.Definitions(name)...)
			<-sub.Changed()
			m.wantList("p." + name)
		}
		settle()
		if taken(sub) {
			t.Error("woken without a change")
		}
	})
}

func TestSubscription_NotifiesOfAChangedDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := server(`{"name":"a","description":"one","icons":[]}`)
		m := run(t, team("eng", "", "", "p"), snapshottest.Upstreams{"p": p})
		sub := m.Subscribe(anyone())
		defer sub.Close()
		for _, change := range []struct {
			definition string
			isOne      bool
		}{
			{`{"name":"a","description":"two","icons":[]}`, true},
			{`{"icons":[ ],"name":"a","description":"tw\u006f"}`, false}, // the same in another spelling
			{`{"name":"a","description":"three"}`, true},
		} {
			p.List(change.definition)
			settle()
			upstreamtest.Equal(t, change.isOne, taken(sub), "%s: woken", change.definition)
		}
	})
}

func TestSubscription_NotifiesOnlyAffectedAudiences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open, closed := server("a"), server("b")
		m := run(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+team("eng", `"user:ann"`,
			"expose \"all\" {\n prompts = [\"open.*\"]\n to = [\"*\"]\n}\nhide \"wip\" { prompts = [\"*.wip_*\"] }", "open", "closed"),
			snapshottest.Upstreams{"open": open, "closed": closed})
		ann, bob := m.Subscribe(policy.Principal{Subject: "user:ann"}), m.Subscribe(policy.Principal{Subject: "user:bob"})
		defer ann.Close()
		defer bob.Close()
		for _, change := range []struct {
			server   *snapshottest.Upstream
			prompts  []string
			ann, bob bool
		}{
			{closed, []string{"b", "c"}, true, false},
			{open, []string{"a", "wip_x"}, false, false}, // hidden from everybody
			{open, []string{"a", "d", "wip_x"}, true, true},
		} {
			change.server.List(gatewaytest.Definitions(change.prompts...)...)
			settle()
			if a, b := taken(ann), taken(bob); a != change.ann || b != change.bob {
				t.Errorf("%v: ann is woken: %t, bob: %t, want %t and %t", change.prompts, a, b, change.ann, change.bob)
			}
		}
		upstreamtest.Equal(t, []string{"open.a", "open.d"}, m.list(policy.Principal{Subject: "user:bob"}), "bob's list")
	})
}

// Clients subscribe while the catalog changes. A client that lists after it has subscribed, and again each time it is woken,
// ends with the last list.
func TestSubscription_OpenedDuringChangesMissesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := server("a"), server("a")
		m := run(t, team("eng", "", "", "one", "two"), snapshottest.Upstreams{"one": one, "two": two})
		for _, p := range []*snapshottest.Upstream{one, two} {
			go func() {
				for i := range 100 {
					p.List(gatewaytest.Definitions(fmt.Sprintf("x%d", i%2))...) // back and forth
					time.Sleep(time.Millisecond)
				}
				p.List(gatewaytest.Definitions("last")...)
			}()
		}
		listed := make([][]string, 30)
		for i := range listed {
			time.Sleep(3 * time.Millisecond)
			go func() {
				sub := m.Subscribe(anyone())
				defer sub.Close()
				for {
					listed[i] = m.list(anyone())
					select {
					case <-sub.Changed():
					case <-t.Context().Done():
						return
					}
				}
			}()
		}
		settle()
		for i := range listed {
			if want := []string{"one.last", "two.last"}; !slices.Equal(listed[i], want) {
				t.Errorf("client %d ends with the list %v, want %v", i, listed[i], want)
			}
		}
	})
}

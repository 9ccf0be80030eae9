package publish

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/gateway/policy"
)

// A client that was notified here may list at a replica that has the change up to 90 seconds later.
func TestSubscription_IsWokenAgainWhereThereAreReplicas(t *testing.T) {
	for replicated, want := range map[bool]map[string][]float64{
		// Bob's view changes after 1 s and after 3 s. One who comes after that may have read a list
		// elsewhere that lacks the change; one who comes much later cannot.
		true: {
			"bob": {1, 3, 11.5, 13.5, 91.5, 93.5}, "eve": nil,
			"who comes soon": {14.5, 94.5}, "who comes late": nil,
		},
		false: {"bob": {1, 3}, "eve": nil, "who comes soon": nil, "who comes late": nil},
	} {
		t.Run(fmt.Sprintf("replicated %t", replicated), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := reloadingTwoTeams(t, replicated)
				r.announce()
				subs, woken := map[string]*Subscription{}, map[string][]float64{}
				open := func(name, who string) {
					subs[name] = r.Subscribe(policy.Principal{Subject: who})
					t.Cleanup(subs[name].Close)
				}
				time.Sleep(recently) // so that the first two have missed nothing
				open("bob", "user:bob")
				open("eve", "user:eve")
				for second := 0.0; second < 400; second += 0.5 {
					switch second {
					case 1:
						r.reload(twoTeams("", "", `hide "x" { prompts = ["b.x"] }`))
					case 3:
						r.reload(twoTeams("", "", ""))
					case 4:
						open("who comes soon", "user:bob")
					case 300:
						open("who comes late", "user:bob")
					}
					synctest.Wait()
					for name, sub := range subs {
						if len(sub.Changed()) > 0 {
							<-sub.Changed()
							woken[name] = append(woken[name], second)
						}
					}
					time.Sleep(500 * time.Millisecond)
				}
				for name, times := range want {
					if got := woken[name]; !slices.Equal(got, times) {
						t.Errorf("%s is woken after %v s, want %v", name, got, times)
					}
				}
			})
		})
	}
}

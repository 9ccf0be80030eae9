package snapshot_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestSubscription_NotifiesAfterTheNewListCanBeRead(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a0")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	streams := s.ListenAll("")
	p.AwaitStream()
	for i := 1; i <= 5; i++ {
		name := fmt.Sprintf("a%d", i)
		p.Offer(name)
		for c, stream := range streams {
			stream.WantChange()
			if diff := cmp.Diff([]string{"p." + name}, c.List()); diff != "" {
				t.Fatalf("%s lists after the notification (-want +got):\n%s", c.Revision, diff)
			}
		}
	}
	for _, stream := range streams {
		stream.WantSilence()
	}
}

func TestSubscription_NotifiesOncePerChange(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	streams := s.ListenAll("")
	p.AwaitStream().SetPrompts("b", "c", "d")
	for range 5 {
		p.Announce()
	}
	for c, stream := range streams {
		stream.WantChange()
		c.WantList("p.b", "p.c", "p.d")
	}
	p.Offer("e") // the next notification is about this change
	for c, stream := range streams {
		stream.WantChange()
		c.WantList("p.e")
		stream.WantSilence()
	}
}

// The later changes of a burst arrive while the gateway lists because of the first one, however fast the machine is. They
// share one more list.
func TestSubscription_ChangesOfABurstShareOneMoreList(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	c := s.Modern("")
	stream := c.Listen("1")
	p.AwaitStream()
	listing, proceed := make(chan struct{}, 100), make(chan struct{})
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call gatewaytest.Call) bool {
		if call.Method != "prompts/list" {
			return false
		}
		result := p.Result(call.Method)
		listing <- struct{}{}
		<-proceed
		p.Respond(w, call, result)
		return true
	})
	p.Offer("burst0")
	<-listing
	for i := 1; i < 20; i++ {
		p.Offer(fmt.Sprintf("burst%d", i))
	}
	p.Synchronize()
	close(proceed)
	told := 0
	for last := ""; last != "p.burst19"; told++ {
		stream.WantChange()
		last = c.List()[0]
	}
	if told > 2 {
		t.Errorf("20 changes in a row caused %d notifications, want 2 at most", told)
	}
	p.Offer("end")
	for last := ""; last != "p.end"; last = c.List()[0] {
		stream.WantChange()
	}
	stream.WantSilence()
	upstreamtest.Equal(t, 2, len(listing), "lists after the first of the burst")
}

func TestSubscription_NotifiesOfAChangedDefinition(t *testing.T) {
	p := gatewaytest.NewPeer(t, "p", `{"name":"a","description":"one","icons":[]}`)
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	c := s.Modern("")
	stream := c.Listen("1")
	p.AwaitStream().Offer(`{"name":"a","description":"two","icons":[]}`)
	stream.WantChange()
	c.Call("prompts/list", "").Want(t, http.StatusOK, `"description":"two"`)
	// The same definition in another spelling is no change. Only the next definition is.
	p.Offer(`{"icons":[ ],"name":"a","description":"tw\u006f"}`)
	p.Offer(`{"name":"a","description":"three"}`)
	stream.WantChange()
	c.Call("prompts/list", "").Want(t, http.StatusOK, `"description":"three"`)
	stream.WantSilence()
}

func TestSubscription_NotifiesOnlyAffectedAudiences(t *testing.T) {
	open, closed := gatewaytest.NewPeer(t, "open", "a"), gatewaytest.NewPeer(t, "closed", "b")
	s := gatewaytest.Serve(t, "auth {\n"+gatewaytest.Token("ann")+gatewaytest.Token("bob")+"}\n"+
		gatewaytest.Team("eng", `"user:ann"`, "expose \"all\" {\n prompts = [\"open.*\"]\n to = [\"*\"]\n}\nhide \"wip\" { prompts = [\"*.wip_*\"] }", open, closed))
	ann, bob := s.ListenAll("ann"), s.ListenAll("bob")
	open.AwaitStream()
	closed.AwaitStream().Offer("b", "c")
	for _, stream := range ann {
		stream.WantChange()
	}
	open.Offer("a", "wip_x") // hidden from everybody
	upstreamtest.Eventually(t, "the hidden prompt is listed", func() bool { return s.Ready().Upstreams[0].Prompts == 2 })
	open.Offer("a", "d", "wip_x")
	for _, streams := range []map[*gatewaytest.Client]*gatewaytest.Stream{ann, bob} {
		for c, stream := range streams {
			stream.WantChange() // for bob, the first notification
			if names := c.List(); !slices.Contains(names, "open.d") {
				t.Errorf("lists %v after the notification, want open.d in it", names)
			}
			stream.WantSilence()
		}
	}
}

func TestSubscription_FailingUpstreamIsNotAChange(t *testing.T) {
	stays, goes := gatewaytest.NewPeer(t, "stays", "a"), gatewaytest.NewPeer(t, "goes", "b")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", stays, goes))
	c := s.Modern("")
	stream := c.Listen("1")
	stays.AwaitStream()
	goes.Stop()
	upstreamtest.Eventually(t, "the upstream is degraded", func() bool { return strings.Contains(c.Call("prompts/list", "").Body, "partial") })
	goes.Restart()
	upstreamtest.Eventually(t, "the upstream is healthy again", func() bool { return !strings.Contains(c.Call("prompts/list", "").Body, "partial") })
	stays.Offer("a", "c")
	stream.WantChange()
	c.WantList("goes.b", "stays.a", "stays.c")
	stream.WantSilence()
}

// Clients open streams while the catalog changes. A client that lists after opening its stream, and again after each
// notification, ends with the last list.
func TestSubscription_OpenedDuringChangesMissesNone(t *testing.T) {
	one, two := gatewaytest.NewPeer(t, "one", "a"), gatewaytest.NewPeer(t, "two", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", one, two))
	one.AwaitStream()
	two.AwaitStream()
	stop := make(chan struct{})
	var changing sync.WaitGroup
	for _, p := range []*gatewaytest.Peer{one, two} {
		changing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					p.Offer("last")
					return
				case <-time.After(5 * time.Millisecond):
					p.Offer(fmt.Sprintf("x%d", i%2)) // back and forth
				}
			}
		})
	}
	last := []string{"one.last", "two.last"}
	ended := make(chan []string, 30)
	for range cap(ended) {
		c := s.Modern("")
		stream := c.Listen("1")
		listed := c.List()
		go func() {
			for !slices.Equal(listed, last) {
				select {
				case <-stream.Events:
					listed = c.List()
				case <-time.After(gatewaytest.Timeout):
					ended <- listed
					return
				}
			}
			ended <- listed
		}()
	}
	close(stop)
	changing.Wait()
	for range cap(ended) {
		upstreamtest.Equal(t, last, <-ended, "a client's last list")
	}
}

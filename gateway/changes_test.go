package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listeners are one client of each kind that can listen over HTTP, with its stream open.
func listeners(s *server, token string) map[*client]*stream {
	modern, newest, older := s.modern(token), s.legacy("2025-11-25", token), s.legacy("2025-03-26", token)
	streams := map[*client]*stream{modern: modern.open("1"), newest: newest.open(""), older: older.open("")}
	streams[newest].next() // the id to begin with
	return streams
}

func TestWhoListsOnANotificationSeesTheNewList(t *testing.T) {
	p := newPeer(t, "p", "a0")
	s := serve(t, team("eng", "", "", p))
	streams := listeners(s, "")
	p.watched()
	for i := 1; i <= 5; i++ {
		name := fmt.Sprintf("a%d", i)
		p.offer(name)
		for c, stream := range streams {
			stream.changed()
			if diff := cmp.Diff([]string{"p." + name}, c.list()); diff != "" {
				t.Fatalf("%s: listed on the notification (-want +got):\n%s", c.revision, diff)
			}
		}
	}
	for _, stream := range streams {
		stream.silent()
	}
}

func TestOneChangeIsToldOnce(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	streams := listeners(s, "")
	p.watched().set("b", "c", "d")
	for range 5 {
		p.announce()
	}
	for c, stream := range streams {
		stream.changed()
		if diff := cmp.Diff([]string{"p.b", "p.c", "p.d"}, c.list()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	p.offer("e") // what comes next is about this
	for c, stream := range streams {
		stream.changed()
		if diff := cmp.Diff([]string{"p.e"}, c.list()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		stream.silent()
	}
}

// The changes of a burst arrive while the list that followed the first of them is on its way, so how fast the machine is
// does not matter: the others share one more list.
func TestChanges_OfABurstShareOneMoreList(t *testing.T) {
	p := newPeer(t, "p", "a")
	s := serve(t, team("eng", "", "", p))
	c := s.modern("")
	stream := c.open("1")
	p.watched()
	listing, proceed := make(chan struct{}, 100), make(chan struct{})
	p.intercept(func(w http.ResponseWriter, _ *http.Request, call heard) bool {
		if call.Method != "prompts/list" {
			return false
		}
		result := p.resultOf(call.Method)
		listing <- struct{}{}
		<-proceed
		p.respond(w, call, result)
		return true
	})
	p.offer("burst0")
	<-listing
	for i := 1; i < 20; i++ {
		p.offer(fmt.Sprintf("burst%d", i))
	}
	p.synchronize()
	close(proceed)
	told := 0
	for last := ""; last != "p.burst19"; told++ {
		stream.changed()
		last = c.list()[0]
	}
	if told > 2 {
		t.Errorf("20 changes in a row were told %d times, want 2 at most", told)
	}
	p.offer("end")
	for last := ""; last != "p.end"; last = c.list()[0] {
		stream.changed()
	}
	stream.silent()
	if more := len(listing); more != 2 {
		t.Errorf("after the burst's first list, there were %d more, want one for the rest of it and one for what followed", more)
	}
}

func TestWhatChangesInADefinitionIsToldToo(t *testing.T) {
	p := newPeer(t, "p", `{"name":"a","description":"one","icons":[]}`)
	s := serve(t, team("eng", "", "", p))
	c := s.modern("")
	stream := c.open("1")
	p.watched().offer(`{"name":"a","description":"two","icons":[]}`)
	stream.changed()
	c.call("prompts/list", "").is(t, http.StatusOK, `"description":"two"`)
	// The same definition in another spelling is not another definition; the following change is what is told.
	p.offer(`{"icons":[ ],"name":"a","description":"tw\u006f"}`)
	p.offer(`{"name":"a","description":"three"}`)
	stream.changed()
	c.call("prompts/list", "").is(t, http.StatusOK, `"description":"three"`)
	stream.silent()
}

func TestOnlyWhoSeesAChangeIsTold(t *testing.T) {
	open, closed := newPeer(t, "open", "a"), newPeer(t, "closed", "b")
	s := serve(t, "auth {\n"+token("ann")+token("bob")+"}\n"+
		team("eng", `"user:ann"`, "expose \"all\" {\n prompts = [\"open.*\"]\n to = [\"*\"]\n}\nhide \"wip\" { prompts = [\"*.wip_*\"] }", open, closed))
	ann, bob := listeners(s, "ann"), listeners(s, "bob")
	open.watched()
	closed.watched().offer("b", "c")
	for _, stream := range ann {
		stream.changed()
	}
	open.offer("a", "wip_x") // hidden from everybody
	eventually(t, "the hidden change is in", func() bool { return s.Ready().Upstreams[0].Prompts == 2 })
	open.offer("a", "d", "wip_x")
	for _, streams := range []map[*client]*stream{ann, bob} {
		for c, stream := range streams {
			stream.changed() // for bob, the first that he hears
			if names := c.list(); !slices.Contains(names, "open.d") {
				t.Errorf("listed on the notification: %v", names)
			}
			stream.silent()
		}
	}
}

func TestAnUpstreamThatFailsIsNoChange(t *testing.T) {
	stays, goes := newPeer(t, "stays", "a"), newPeer(t, "goes", "b")
	s := serve(t, team("eng", "", "", stays, goes))
	c := s.modern("")
	stream := c.open("1")
	stays.watched()
	goes.stop()
	eventually(t, "it is noticed", func() bool { return strings.Contains(c.call("prompts/list", "").body, "partial") })
	goes.restart()
	eventually(t, "it is back", func() bool { return !strings.Contains(c.call("prompts/list", "").body, "partial") })
	stays.offer("a", "c")
	stream.changed()
	if diff := cmp.Diff([]string{"goes.b", "stays.a", "stays.c"}, c.list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	stream.silent()
}

// TestStreamsThatOpenDuringChangesMissNothing opens streams while the catalog changes all the time: whatever a client
// listed after its stream stood, it ends with the last list if it lists on each notification.
func TestStreamsThatOpenDuringChangesMissNothing(t *testing.T) {
	one, two := newPeer(t, "one", "a"), newPeer(t, "two", "a")
	s := serve(t, team("eng", "", "", one, two))
	one.watched()
	two.watched()
	stop := make(chan struct{})
	var changing sync.WaitGroup
	for _, p := range []*peer{one, two} {
		changing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					p.offer("last")
					return
				case <-time.After(5 * time.Millisecond):
					p.offer(fmt.Sprintf("x%d", i%2)) // back and forth
				}
			}
		})
	}
	last := []string{"one.last", "two.last"}
	ended := make(chan []string, 30)
	for range cap(ended) {
		c := s.modern("")
		stream := c.open("1")
		listed := c.list()
		go func() {
			for !slices.Equal(listed, last) {
				select {
				case <-stream.events:
					listed = c.list()
				case <-time.After(patience):
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
		if diff := cmp.Diff(last, <-ended); diff != "" {
			t.Errorf("a client's last list (-want +got):\n%s", diff)
		}
	}
}

package upstream_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// refuseForURL makes a peer refuse all gets until somebody has been at a URL. The n-th refusal, from 1 on, is for the
// elicitation "eN".
func refuseForURL(p *upstreamtest.Peer) {
	p.Handle(wire.PromptsGet, func(w http.ResponseWriter, r *upstreamtest.Request) {
		r.Error(w, http.StatusOK, fmt.Sprintf(`{"code":-32042,"message":"first pay","data":{"elicitations":[`+
			`{"mode":"url","elicitationId":"e%d","url":"https://pay.example.com/","message":"pay"}]}}`, len(p.Seen(wire.PromptsGet))))
	})
}

// elicitationOver is what a server says when an elicitation by URL has ended.
func elicitationOver(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":%q,"x":1}}`, id)
}

// payer is the relay of a client that can be sent to URLs, and appends what it is told after its gets.
func payer(caller string, told *[]string) *upstream.Relay {
	relay := rooted(nil, 0)
	relay.Capabilities, relay.Caller = jsontext.Value(`{"elicitation":{"url":{}}}`), caller
	relay.NotifyLater = func(method string, params jsontext.Value) { *told = append(*told, method+string(params)) }
	return relay
}

func TestElicited_ItsEndIsPassedOnForTenMinutes(t *testing.T) {
	for after, want := range map[time.Duration]int{time.Second: 1, 6 * time.Minute: 1, 599 * time.Second: 1, 601 * time.Second: 0} {
		inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
			refuseForURL(p)
			var told []string
			if err := getFor(t.Context(), c, payer("ann", &told)); err == nil {
				t.Error("the get succeeds")
			}
			time.Sleep(after)
			for _, id := range []string{"other", "e1", "e1"} {
				p.Say(elicitationOver(id))
			}
			synctest.Wait()
			expected := slices.Repeat([]string{`notifications/elicitation/complete{"elicitationId":"e1","x":1}`}, want)
			if !slices.Equal(told, expected) {
				t.Errorf("after %s told of %q, want %q", after, told, expected)
			}
			time.Sleep(16 * time.Minute)
			if n := len(p.Seen(http.MethodDelete)); n != 1 {
				t.Errorf("%d sessions have ended, want 1", n)
			}
		})
	}
}

// A server cannot leave what is large for callers: of that, they hear the id.
func TestElicited_PassesOnTheIDOfALargeEnd(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		refuseForURL(p)
		var told []string
		if err := getFor(t.Context(), c, payer("ann", &told)); err == nil {
			t.Error("the get succeeds")
		}
		p.Say(strings.Replace(elicitationOver("e1"), `"x":1`, `"x":"`+strings.Repeat("x", 5000)+`"`, 1))
		synctest.Wait()
		if want := []string{`notifications/elicitation/complete{"elicitationId":"e1"}`}; !slices.Equal(told, want) {
			t.Errorf("told of %.200q, want %q", told, want)
		}
	})
}

// What one caller is refused does not keep others from hearing of theirs.
func TestElicited_IsBoundedForEachCaller(t *testing.T) {
	inBubble(t, upstreamtest.NewPeer, anywhere(), func(t *testing.T, p *upstreamtest.Peer, c *upstream.Connector) {
		refuseForURL(p)
		var ann, bob []string
		for i := range 100 {
			relay := payer("bob", &bob)
			if i == 0 {
				relay = payer("ann", &ann)
			}
			if err := getFor(t.Context(), c, relay); err == nil {
				t.Error("the get succeeds")
			}
		}
		for i := range 100 {
			p.Say(elicitationOver(fmt.Sprint("e", i+1)))
			synctest.Wait()
		}
		if len(ann) != 1 || len(bob) != 16 {
			t.Errorf("ann is told of %d, want 1; bob of %d, want 16", len(ann), len(bob))
		}
	})
}

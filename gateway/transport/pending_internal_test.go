package transport

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/requests"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
	"github.com/promptweir/promptweir/upstream/wire"
)

func TestPending_BecomesAStreamWhereItTakesLong(t *testing.T) {
	const comment = ": keep-alive\n\n"
	for _, test := range []struct {
		method    string
		takes     time.Duration
		sendAfter time.Duration // of a message before the response
		want      string
	}{
		{wire.PromptsGet, streamAfter - time.Second, 0, ""},
		{wire.PromptsGet, streamAfter + 2*time.Second, 0, comment},
		{wire.Complete, streamAfter + 2*keepAlive + 4*time.Second, 0, strings.Repeat(comment, 3)},
		{wire.PromptsGet, streamAfter + 2*time.Second, 5 * time.Second, "data: {}\n\n"},
		{wire.PromptsGet, 5*time.Second + keepAlive + 2*time.Second, 5 * time.Second, "data: {}\n\n" + comment},
		{wire.PromptsList, time.Minute, 0, ""},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := httptest.NewRecorder()
			var p pending
			s := &Transport{}
			other := pending{}
			s.pendings.add(&other, httptest.NewRecorder(), &requests.Request{Received: time.Now(), Message: wire.Message{Method: wire.PromptsGet}})
			defer s.pendings.end(&other)
			s.pendings.add(&p, w, &requests.Request{Received: time.Now(), Message: wire.Message{Method: test.method}})
			if test.sendAfter > 0 {
				time.Sleep(test.sendAfter)
				if !p.send([]byte("{}")) {
					t.Error("the client seems to have gone")
				}
			}
			time.Sleep(test.takes - test.sendAfter)
			stream := s.pendings.end(&p)
			time.Sleep(time.Minute) // nobody else writes after the end
			if stream != nil != (test.want != "") || w.Body.String() != test.want {
				t.Errorf("%+v: a stream: %t, got %q", test, stream != nil, w.Body.String())
			}
			if test.want != "" {
				upstreamtest.Equal(t, wire.ContentSSE, w.Header().Get("Content-Type"), "content type")
			}
		})
	}
}

package httpconn

import (
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// deserted is a connection whose client has left. It counts those that are closed.
type deserted struct {
	net.Conn

	closed *atomic.Int32
}

func (deserted) Read([]byte) (int, error) { return 0, io.EOF }

func (d deserted) Close() error {
	d.closed.Add(1)
	return nil
}

func TestConn_ClosesAFewAtATimeWhenManyClientsLeave(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var closed, told atomic.Int32
		all := new(departures)
		open := func() *Conn {
			c := newConn(deserted{closed: &closed})
			c.departures = all
			c.OnClose(func() { told.Add(1) })
			return c
		}
		atOnce := departuresAtOnce * runtime.GOMAXPROCS(0)
		for range 5 * atOnce {
			c := open()
			if _, err := c.Read(nil); err == nil {
				t.Fatal("the client has not left")
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			if got, want := int(closed.Load()), (i+1)*atOnce; got != want {
				t.Fatalf("%d connections are closed after %v, want %d", got, time.Duration(i)*departuresInterval, want)
			}
			if i == 2 { // of a client that is there, at once
				if err := open().Close(); err != nil || int(closed.Load()) != 3*atOnce+1 {
					t.Errorf("Close = %v, after which %d are closed", err, closed.Load())
				}
				closed.Add(-1)
			}
			time.Sleep(departuresInterval)
			synctest.Wait()
		}
		if got, want := int(told.Load()), 5*atOnce+1; got != want {
			t.Errorf("OnClose was called %d times, want %d", got, want)
		}
		time.Sleep(time.Second)
		last := open()
		_, _ = last.Read(nil)
		if err := last.Close(); err != nil || int(told.Load()) != 5*atOnce+2 {
			t.Errorf("later, one is not closed at once: %v, %d", err, told.Load())
		}
	})
}

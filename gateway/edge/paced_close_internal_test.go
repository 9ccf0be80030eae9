package edge

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
		var closed atomic.Int32
		ledger := New(Options{})
		pace := newPace()
		open := func() *Conn {
			c := newConn(deserted{closed: &closed})
			c.pace = pace
			c.ledger, c.slot = ledger, &slot{conn: c}
			ledger.accept(c)
			return c
		}
		atOnce := closesAtOnce * runtime.GOMAXPROCS(0)
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
				t.Fatalf("%d connections are closed after %v, want %d", got, time.Duration(i)*closeInterval, want)
			}
			if i == 2 { // of a client that is there, at once
				if err := open().Close(); err != nil || int(closed.Load()) != 3*atOnce+1 {
					t.Errorf("Close = %v, after which %d are closed", err, closed.Load())
				}
				closed.Add(-1)
			}
			time.Sleep(closeInterval)
			synctest.Wait()
		}
		if left := ledger.slots[all].count; left != 0 {
			t.Errorf("%d closed connections have slots", left)
		}
		time.Sleep(time.Second)
		last := open()
		_, _ = last.Read(nil)
		if err := last.Close(); err != nil || ledger.slots[all].count != 0 {
			t.Errorf("later, one is not closed at once: %v", err)
		}
	})
}

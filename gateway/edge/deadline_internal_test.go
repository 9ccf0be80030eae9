package edge

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

// pair returns a connection and its peer.
func pair(t *testing.T) (c *Conn, peer net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return newConn(near), far
}

// longAgo is the deadline with which net/http interrupts a read.
func longAgo() time.Time { return time.Unix(1, 0) }

// ways are reading from a connection and writing to it, whose deadlines are alike.
var ways = map[string]struct { //nolint:gochecknoglobals // a constant table
	set func(*Conn, time.Time) error
	use func(*Conn) error
}{
	"read":  {(*Conn).SetReadDeadline, func(c *Conn) error { _, err := c.Read(make([]byte, 1)); return err }},
	"write": {(*Conn).SetWriteDeadline, func(c *Conn) error { _, err := c.Write([]byte("x")); return err }},
}

func TestConn_DeadlineFiresInTime(t *testing.T) {
	for _, test := range []struct {
		name string
		// deadlines are set one after another, as durations from now.
		deadlines []time.Duration
		want      time.Duration
	}{
		{"one", []time.Duration{10 * time.Second}, 10 * time.Second},
		{"later", []time.Duration{10 * time.Second, 2 * time.Minute}, 2 * time.Minute},
		{"earlier", []time.Duration{2 * time.Minute, 10 * time.Second}, 10 * time.Second},
		{"earlier, then later", []time.Duration{2 * time.Minute, 10 * time.Second, 30 * time.Second}, 30 * time.Second},
		{"removed and set again", []time.Duration{10 * time.Second, never, 30 * time.Second}, 30 * time.Second},
		{"interrupted", []time.Duration{30 * time.Second, interrupted}, 0},
		{"interrupted before", []time.Duration{30 * time.Second, interrupted, never, 2 * time.Minute, 10 * time.Second}, 10 * time.Second},
		{"interrupted before, the next is near", []time.Duration{interrupted, never, time.Second}, time.Second},
		{"interrupted before, the next is far", []time.Duration{interrupted, never, time.Hour}, time.Hour},
	} {
		for name, way := range ways {
			t.Run(name+" "+test.name, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, _ := pair(t)
					begun := time.Now()
					for _, d := range test.deadlines {
						if err := way.set(c, at(begun, d)); err != nil {
							t.Fatal(err)
						}
					}
					err := way.use(c)
					if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took != test.want {
						t.Errorf("got %v after %v, want os.ErrDeadlineExceeded after %v", err, took, test.want)
					}
				})
			})
		}
	}
}

const never, interrupted = -1, -2

func at(begun time.Time, d time.Duration) time.Time {
	switch d {
	case never:
		return time.Time{}
	case interrupted:
		return longAgo()
	}
	return begun.Add(d)
}

func TestConn_ReadOutlastsReplacedDeadline(t *testing.T) {
	for _, later := range []time.Duration{time.Minute, never} {
		bubble.Test(t, func(t *testing.T) {
			c, peer := pair(t)
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			_ = c.SetReadDeadline(at(time.Now(), later))
			go func() {
				time.Sleep(30 * time.Second)
				_, _ = peer.Write([]byte("here"))
			}()
			got := make([]byte, 10)
			if n, err := c.Read(got); err != nil || string(got[:n]) != "here" {
				t.Errorf("got %q, %v", got[:n], err)
			}
		})
	}
}

// The bytes that were written before a deadline fired too early are not written again.
func TestConn_WriteOutlastsReplacedDeadline(t *testing.T) {
	for name, write := range map[string]func(*Conn, []byte) error{
		"one":  func(c *Conn, p []byte) error { _, err := c.Write(p); return err },
		"many": func(c *Conn, p []byte) error { return c.writeAll(&net.Buffers{p[:3], p[3:]}) },
	} {
		for _, later := range []time.Duration{time.Minute, never} {
			t.Run(name, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, peer := pair(t)
					_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
					_ = c.SetWriteDeadline(at(time.Now(), later))
					var got []byte
					go func() {
						for range 6 { // a byte at a time, for 30 seconds
							time.Sleep(5 * time.Second)
							b := make([]byte, 1)
							_, _ = peer.Read(b)
							got = append(got, b...)
						}
					}()
					if err := write(c, []byte("abcdef")); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					upstreamtest.Equal(t, "abcdef", string(got), "what the peer read")
				})
			})
		}
	}
}

func TestConn_CanBeInterrupted(t *testing.T) {
	for name, way := range ways {
		bubble.Test(t, func(t *testing.T) {
			c, _ := pair(t)
			time.AfterFunc(time.Second, func() { _ = way.set(c, longAgo()) })
			begun := time.Now()
			if err := way.use(c); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
				t.Errorf("%s: got %v after %v", name, err, time.Since(begun))
			}
		})
	}
}

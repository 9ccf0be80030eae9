package places

import (
	"log/slog"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest/bubble"
)

func TestPlaces_KnowWhetherTheyWereUsedLately(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p, connection := New(10, slog.New(slog.DiscardHandler)), &place{holder: "a"}
		if p.UsedWithin(time.Hour) {
			t.Error("used before anybody came")
		}
		p.insertLocked(connection)
		time.Sleep(2 * time.Minute)
		if !p.UsedWithin(time.Minute) {
			t.Error("not used while somebody is connected")
		}
		p.release(connection)
		time.Sleep(time.Minute - time.Nanosecond)
		if !p.UsedWithin(time.Minute) {
			t.Error("not used a minute after somebody was connected")
		}
		time.Sleep(time.Nanosecond)
		if p.UsedWithin(time.Minute) {
			t.Error("used, later")
		}
	})
}

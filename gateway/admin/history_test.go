package admin_test

import (
	"testing"
	"time"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

func TestHistory_HasTheLastHour(t *testing.T) {
	p := gatewaytest.NewPeer(t, "up", "a")
	s := gatewaytest.Serve(t, gatewaytest.Team("eng", "", "", p))
	total := map[[2]string]int64{}
	gets := func(observe func(prompt, outcome string, n int64)) {
		for key, n := range total {
			observe(key[0], key[1], n)
		}
	}
	h, now := admin.NewHistory(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	record := func(after time.Duration) { h.Record(now.Add(after), s.Snapshot(), gets) }
	total[[2]string{"up.a", "ok"}], total[[2]string{"up.a", "failed"}] = 3, 1
	total[[2]string{"", "unknown"}] = 2
	record(0)
	total[[2]string{"up.a", "ok"}] = 5
	record(time.Second)
	p.Stop()
	s.AwaitTrouble("up")
	record(time.Minute)
	record(time.Minute) // nothing new

	wants := func(what string, hour *admin.Hour, gets, errors int) {
		t.Helper()
		if gotGets, gotErrors := hour.Sum(); gotGets != gets || gotErrors != errors {
			t.Errorf("%s: %d gets, %d errors, want %d, %d", what, gotGets, gotErrors, gets, errors)
		}
	}
	then := now.Add(time.Minute)
	wants("upstream", h.Upstream("up", then), 6, 1)
	wants("all", h.All(then), 8, 1)
	if h.Upstream("down", then) != nil {
		t.Error("a history of what there is not")
	}
	hour := h.Upstream("up", then)
	if before, last := hour[58], hour[59]; before.Level != admin.Good || before.Gets != 6 || last.Level != admin.Bad || !last.Known || hour[57].Known {
		t.Errorf("%+v, %+v", before, last)
	}
	wants("an hour later", h.All(now.Add(time.Hour)), 0, 0)
	if hour := h.Upstream("up", now.Add(time.Hour)); hour[0].Level != admin.Bad || !hour[0].Known || hour[1].Known {
		t.Errorf("59 minutes later: %+v", hour[0])
	}
}

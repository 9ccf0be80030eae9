package snapshot

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUpdate_IsLikeBuildingTheListAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var list, touched, want []int
		upstreams := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 20).Draw(t, "upstreams") // 0 and 1 are as before, of others some belong
		for i, kind := range upstreams {
			if kind%2 == 1 {
				list = append(list, i)
			}
			if kind > 1 {
				touched = append(touched, i)
			}
			if kind == 1 || kind > 3 {
				want = append(want, i)
			}
		}
		if got := update(list, touched, func(i int) bool { return upstreams[i] > 3 }); !slices.Equal(got, want) {
			t.Fatalf("%v with %v touched = %v, want %v", list, touched, got, want)
		}
	})
}

func TestAppointments_AreKeptOnceAndInTime(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	var a appointments
	a.make(1, at(10))
	a.make(1, at(5))
	a.make(1, at(20))
	a.make(2, at(7))
	a.make(3, at(6))
	a.cancel(3)
	for second := range 30 {
		var want []int
		switch second {
		case 5:
			want = []int{1}
		case 7:
			want = []int{2}
		}
		if a.next.After(at(second)) && want != nil {
			t.Errorf("after %d s, the next appointment is at %s", second, a.next.Sub(start))
		}
		if got := a.pop(at(second)); !slices.Equal(got, want) {
			t.Errorf("after %d s: %v, want %v", second, got, want)
		}
	}
	if !a.next.IsZero() {
		t.Errorf("the next appointment of none is at %s", a.next.Sub(start))
	}
}

func TestPublish_LooksOnlyAtWhatChanged(t *testing.T) {
	t.Parallel()
	r := newReloading(t, twoTeams("", "", ""), nil)
	r.builder.publish(t.Context(), r.Current().Generation) // all that the start left
	before := r.Current()
	g, a := before.Generation, before.index["a"]
	r.changed.add("a")
	r.changed.add("unknown")
	if got := r.builder.touched(g, g); !slices.Equal(got, []int{a}) {
		t.Errorf("the upstreams at %v are looked at, want %d only", got, a)
	}
	if got := r.builder.touched(g, g); len(got) > 0 {
		t.Errorf("the upstreams at %v are looked at again", got)
	}
	if got := r.builder.touched(nil, g); len(got) != len(g.Upstreams) {
		t.Errorf("of a new generation, the upstreams at %v are looked at, want all", got)
	}
	r.builder.publish(t.Context(), g)
	if after := r.Current(); !slices.Equal(after.States, before.States) || after.views != before.views {
		t.Error("without a change, states or views are others")
	}
}

package rig_test

import (
	"testing"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

// The ranks are those of any table of the sign test.
func TestMedianInterval_TakesRanksOfSignTest(t *testing.T) {
	for n, want := range map[int]rig.Interval{
		1:  {Low: 1, Median: 1, High: 1},
		5:  {Low: 1, Median: 3, High: 5},
		6:  {Low: 1, Median: 3.5, High: 6},
		9:  {Low: 2, Median: 5, High: 8},
		15: {Low: 4, Median: 8, High: 12},
		30: {Low: 10, Median: 15.5, High: 21},
	} {
		var values []float64
		for i := range n {
			values = append(values, float64((i*7)%n+1)) // out of order, where 7 does not divide n
		}
		if got := rig.MedianInterval(values); got != want {
			t.Errorf("MedianInterval(1…%d) = %v, want %v", n, got, want)
		}
	}
}

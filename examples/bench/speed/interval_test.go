package main

import "testing"

// The ranks are those of any table of the sign test.
func TestMedianInterval_TakesRanksOfSignTest(t *testing.T) {
	for n, want := range map[int]interval{
		1:  {1, 1, 1},
		5:  {1, 3, 5},
		6:  {1, 3.5, 6},
		9:  {2, 5, 8},
		15: {4, 8, 12},
		30: {10, 15.5, 21},
	} {
		var values []float64
		for i := range n {
			values = append(values, float64((i*7)%n+1)) // out of order, where 7 does not divide n
		}
		if got := medianInterval(values); got != want {
			t.Errorf("medianInterval(1…%d) = %v, want %v", n, got, want)
		}
	}
}

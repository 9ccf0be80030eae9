package main

import (
	"fmt"
	"math"
	"slices"
)

// interval is a median with its confidence interval.
type interval struct{ low, median, high float64 }

// String implements [fmt.Stringer].
func (i interval) String() string {
	return fmt.Sprintf("**%.3f** (%.3f–%.3f)", i.median, i.low, i.high)
}

// confidence is the least probability with which an interval covers the median that more samples would approach.
const confidence = 0.95

// medianInterval returns the median of the values and its confidence interval by the sign test, which assumes nothing of
// how the values are distributed. Fewer than six values have no such interval: it is all of them then.
func medianInterval(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return interval{math.NaN(), math.NaN(), math.NaN()}
	}
	// The interval from the value of rank r+1 to the one of rank n-r misses the median if at most r of n values lie on one
	// side of it, each with probability one half.
	missed, ways, outside := 0.0, 1.0, 0
	for r := range n / 2 {
		missed += 2 * ways / math.Pow(2, float64(n))
		if missed > 1-confidence {
			break
		}
		outside = r
		ways *= float64(n-r) / float64(r+1)
	}
	middle := (sorted[(n-1)/2] + sorted[n/2]) / 2
	return interval{sorted[outside], middle, sorted[n-1-outside]}
}

package rig

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Interval is a median with its confidence interval.
type Interval struct{ Low, Median, High float64 }

// String implements [fmt.Stringer].
func (i Interval) String() string {
	return fmt.Sprintf("**%.3f** (%.3f–%.3f)", i.Median, i.Low, i.High)
}

// confidence is the least probability with which an interval covers the median that more samples would approach.
const confidence = 0.95

// MedianInterval returns the median of the values and its confidence interval by the sign test, which assumes nothing of
// how the values are distributed. Fewer than six values have no such interval: it is all of them then.
func MedianInterval(values []float64) Interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
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
	return Interval{sorted[outside], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1-outside]}
}

// Quantile returns the value that a percentage of the times does not exceed.
func Quantile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}

// Milliseconds formats a time.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

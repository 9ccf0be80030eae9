package rig

import (
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/perf/benchmath"
)

// Interval is a median with its confidence interval.
type Interval struct{ Low, Median, High float64 }

// String implements [fmt.Stringer].
func (i Interval) String() string {
	return fmt.Sprintf("**%.3f** (%.3f–%.3f)", i.Median, i.Low, i.High)
}

// MedianInterval returns the median of the values and its 95 % confidence interval, which assumes nothing of
// how the values are distributed. Fewer than six values have no such interval: it is all of them then.
func MedianInterval(values []float64) Interval {
	if len(values) == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	s := benchmath.AssumeNothing.Summary(sample, 0.95)
	return Interval{max(s.Lo, slices.Min(values)), s.Center, min(s.Hi, slices.Max(values))}
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

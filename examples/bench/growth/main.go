// Command growth reads the output of go test -bench and shows how each measure grows with n. For benchmarks with sub-benchmarks
// named n=1000 and so on, it prints the median of all runs at each n, and the exponent k for which the measure grows like n^k
// from the smallest n to the largest: 1.0 is linear, 0.0 is independent of n.
//
// Some measures have a promised upper bound at the largest n. A bound that is missed does not change the exit code: the
// machine may be busy.
package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// promises are upper bounds at the largest n, by benchmark and unit.
func promises() map[measure]float64 {
	return map[measure]float64{
		{"Merge", "ns/op"}:                float64(time.Second),
		{"Publish", "ns/op"}:              float64(20 * time.Millisecond),
		{"Page/bytes", "ns/op"}:           float64(10 * time.Microsecond),
		{"Memory", "B/entry-2def"}:        2 << 10,
		{"GatewayMemory", "B/entry-2def"}: 2 << 10,
	}
}

// measure is one unit of one benchmark.
type measure struct{ benchmark, unit string }

// samples holds the values of all runs of a measure, by n.
type samples map[int][]float64

// line matches a result: the name, with n in it and GOMAXPROCS at its end, and then pairs of value and unit.
var line = regexp.MustCompile(`^Benchmark(\S*?)/n=(\d+)(\S*?)(?:-\d+)?\s+\d+\s+(.*)$`)

// run reads results from in and prints the table.
func run(in io.Reader, out io.Writer) error {
	measures, sizes := map[measure]samples{}, map[int]bool{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		match := line.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		n, err := strconv.Atoi(match[2])
		if err != nil {
			return err
		}
		sizes[n] = true
		pairs := strings.Fields(match[4])
		for i := 0; i+1 < len(pairs); i += 2 {
			value, err := strconv.ParseFloat(pairs[i], 64)
			if err != nil {
				return fmt.Errorf("%q: %w", lines.Text(), err)
			}
			m := measure{match[1] + match[3], pairs[i+1]}
			if measures[m] == nil {
				measures[m] = samples{}
			}
			measures[m][n] = append(measures[m][n], value)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return write(out, measures, slices.Sorted(maps.Keys(sizes)))
}

func write(out io.Writer, measures map[measure]samples, sizes []int) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\t")
	for _, n := range sizes {
		fmt.Fprintf(table, "n=%d\t", n)
	}
	fmt.Fprintln(table, "growth\tpromised\t")
	promised := promises()
	order := slices.SortedFunc(maps.Keys(measures), func(a, b measure) int {
		return strings.Compare(a.benchmark+" "+a.unit, b.benchmark+" "+b.unit)
	})
	for _, m := range order {
		switch m.unit {
		case "allocs/op", "B/op", "MB/s": // in the output of benchstat
			continue
		}
		name := m.benchmark
		if m.unit != "ns/op" {
			name += ", " + m.unit
		}
		fmt.Fprintf(table, "%s\t", name)
		for _, n := range sizes {
			fmt.Fprintf(table, "%s\t", show(median(measures[m][n]), m.unit))
		}
		fmt.Fprintf(table, "%s\t%s\t\n", growth(measures[m], sizes), verdict(m, measures[m][sizes[len(sizes)-1]], promised))
	}
	return table.Flush()
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

func show(value float64, unit string) string {
	switch {
	case math.IsNaN(value):
		return "-"
	case !strings.HasPrefix(unit, "ns") && !strings.HasSuffix(unit, "-ns"):
		return fmt.Sprintf("%.0f", value)
	case value < 1000:
		return fmt.Sprintf("%.3g ns", value)
	}
	digits := math.Pow(10, math.Floor(math.Log10(value))-2)
	return time.Duration(value).Round(time.Duration(digits)).String()
}

// growth returns the exponent between the smallest and the largest n.
func growth(s samples, sizes []int) string {
	first, last := sizes[0], sizes[len(sizes)-1]
	k := math.Log(median(s[last])/median(s[first])) / math.Log(float64(last)/float64(first))
	if math.IsNaN(k) || math.IsInf(k, 0) {
		return "-"
	}
	return fmt.Sprintf("n^%.1f", math.Round(10*k)/10+0) // + 0 turns -0 into 0
}

func verdict(m measure, values []float64, promised map[measure]float64) string {
	limit, ok := promised[m]
	switch {
	case !ok || len(values) == 0:
		return ""
	case median(values) <= limit:
		return "< " + show(limit, m.unit) + ": ok"
	}
	return "< " + show(limit, m.unit) + ": MISSED"
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/promptweir/promptweir/upstream/wire"
)

// pairCase is a load under which two builds of the gateway are compared.
type pairCase struct {
	name        string
	connections int
	upstream    []string // arguments of reference upstream
	pageSize    int
	modern      bool // the client speaks 2026-07-28
	method      string
	want        string // must be in each first response
}

func pairCases() []pairCase {
	get := func(name string, connections int, modern bool, upstream ...string) pairCase {
		return pairCase{name, connections, upstream, 100, modern, wire.PromptsGet, someText}
	}
	all := []pairCase{
		get("get 0.3 KB, 2025-11-25", usual, false, "-legacy"),
		get("get 0.3 KB, 2026-07-28", usual, true),
		get("get 10 KB, 2025-11-25", usual, false, "-legacy", "-size", "10000"),
		get("get 10 KB, 2026-07-28", usual, true, "-size", "10000"),
		get("get 1 MB, 2025-11-25", usual, false, "-legacy", "-size", "1000000"),
		get("get, upstream takes 20 ms", 128, false, "-legacy", "-delay", "20ms"),
		get("get, upstream takes 20 ms", 2000, false, "-legacy", "-delay", "20ms"),
	}
	for _, prompts := range []int{10, 100, 1000} {
		all = append(all, pairCase{
			fmt.Sprintf("list of %d", prompts), usual,
			[]string{"-legacy", "-prompts", strconv.Itoa(prompts)},
			prompts, false, wire.PromptsList, fmt.Sprintf(`p%05d"`, prompts-1),
		})
	}
	return all
}

// comparePairs compares the gateway with an older build of it. Both run at the same time; they take turns under the same
// load, and which is first alternates. What counts is the ratio within each pair: whatever else the machine does meanwhile
// slows both.
func comparePairs(ctx context.Context, s settings) error {
	printPairsHeading(s, "old", "new")
	for _, c := range pairCases() {
		if !s.only.MatchString(c.name) {
			continue
		}
		if err := c.compare(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return compareMemory(ctx, s)
}

func printPairsHeading(s settings, old, latest string) {
	fmt.Printf("Ratios are %s to %s, medians of %d pairs with the 95 %% confidence interval of the median.\n\n", latest, old, s.pairs)
	fmt.Printf("| case | connections | req/s %s | %s | req/s ratio | CPU per request | p99 | allocations per request, %[1]s → %[2]s | bytes per request | RSS MiB |\n"+
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", old, latest)
}

// addition is what only one of two gateways has: blocks of its configuration, and variables of its environment.
type addition struct {
	blocks      string
	environment []string
}

// builds returns the programs to compare, the old one first.
func (s settings) builds() []string { return []string{s.against, ""} }

// turnsOfPair is how many turns each gateway of a pair takes, each half as long as -length says. One more comes before and does not count,
// because a process that has just started is slower.
const turnsOfPair = 4

func (c pairCase) compare(ctx context.Context, s settings) error {
	var rows [2]row
	for pair := range s.pairs {
		samples, err := c.takePair(ctx, s, pair)
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i] = append(rows[i], samples[i])
		}
	}
	fmt.Println(c.line(rows[0], rows[1]))
	return nil
}

// takePair starts both gateways, and returns a sample of the old build and one of the new. Two starts of one build differ by some percent
// for as long as they live, because of how their memory happens to lie: so each pair is started anew.
func (c pairCase) takePair(ctx context.Context, s settings, pair int) (samples [2]sample, err error) {
	st := newStage(s)
	defer st.close()
	up, err := st.reference(ctx, append([]string{"upstream"}, c.upstream...)...)
	if err != nil {
		return samples, err
	}
	both := make(entrants, 2)
	for turn := range both {
		i := (pair + turn) % len(both)
		st.build = s.builds()[i]
		settings := settingsOf{upstream: at(up, ""), pageSize: c.pageSize}
		if st.build == "" {
			settings.addition = s.added
		}
		gateway, err := st.gateway(ctx, settings)
		if err != nil {
			return samples, err
		}
		both[i] = entrant{[]string{"old", "new"}[i], gateway, "up.p00001", c.modern}
	}
	params := func(e entrant) string {
		if c.method == wire.PromptsList {
			return ""
		}
		return fmt.Sprintf(`"name":%q`, e.prompt)
	}
	contestants, err := both.ready(ctx, c.method, params, c.want)
	if err != nil {
		return samples, err
	}
	var rows [2]row
	for turn := range 2 * (1 + turnsOfPair) {
		i := (pair + turn/2 + turn) % len(rows) // who was second is first next
		taken, err := contestants[i].takeWithAllocations(ctx, c.connections, s.length/2)
		if err != nil {
			return samples, fmt.Errorf("%s: %w", contestants[i].name, err)
		}
		rows[i] = append(rows[i], taken)
	}
	for i := range samples {
		samples[i] = rows[i][1:].mean()
	}
	return samples, nil
}

func (c pairCase) line(old, latest row) string {
	rate := func(s sample) float64 { return s.rate }
	ratio := func(of func(sample) float64) interval {
		values := make([]float64, len(old))
		for i := range old {
			values[i] = of(latest[i]) / of(old[i])
		}
		return medianInterval(values)
	}
	objects := func(s sample) float64 { return s.objects }
	size := func(s sample) float64 { return s.bytes }
	resident := func(s sample) float64 { return float64(s.memory) / (1 << 20) }
	return fmt.Sprintf("| %s | %d | %.0f | %.0f | %s | %s | %s | %.1f → %.1f | %.0f → %.0f | %.0f → %.0f |", c.name, c.connections, median(old, rate), median(latest, rate),
		ratio(rate), ratio(func(s sample) float64 { return s.cpu }), ratio(func(s sample) float64 { return float64(s.p99) }),
		median(old, objects), median(latest, objects), median(old, size), median(latest, size),
		median(old, resident), median(latest, resident))
}

// heapUse is how much a process has allocated since its start.
type heapUse struct{ objects, bytes float64 }

func (c contestant) allocations(ctx context.Context) (heapUse, error) {
	admin, err := c.process.Attr("admin")
	if err != nil {
		return heapUse{}, err
	}
	text, err := fetch(ctx, admin+"/metrics")
	if err != nil {
		return heapUse{}, err
	}
	objects, err := metric(text, "go_memstats_mallocs_total")
	size, sizeErr := metric(text, "go_memstats_alloc_bytes_total")
	return heapUse{objects, size}, errors.Join(err, sizeErr)
}

// metric returns the value of a metric without labels, of what Prometheus scrapes.
func metric(text []byte, name string) (float64, error) {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
			return strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
		}
	}
	return 0, fmt.Errorf("no metric %s", name)
}

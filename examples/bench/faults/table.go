//go:build unix

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// The table of a run stands between these lines of a Markdown file.
const (
	tableBegin = "<!-- faults: written by make faults -->\n"
	tableEnd   = "<!-- faults: end -->\n"
)

// table returns a Markdown table with a row for each fault.
func table(outcomes []*outcome) string {
	var b strings.Builder
	b.WriteString("| fault | gets of the server | slowest error | marked after | well after | neighbours answered | their p99, and without a fault | memory |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, o := range outcomes {
		if o.err != nil {
			fmt.Fprintf(&b, "| %s | not run: %v | | | | | | |\n", o.fault.name, o.err)
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s, %s | +%d MiB |\n", o.fault.name, o.reasons(), o.slowestError(), o.markedAfter(),
			o.healedAfter(), percent(o.neighbours), milliseconds(p99(o.neighbours)), milliseconds(max(o.p99Before, o.p99Control)), max(o.memory, 0)>>20)
	}
	return b.String()
}

// reasons returns those that gets failed for, in the order in which they first occurred.
func (o *outcome) reasons() string {
	var all []string
	for _, g := range failures(o.gets) {
		if name := "`" + g.reason + "`"; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	switch {
	case len(all) > 0:
		return strings.Join(all, ", ")
	case o.fault.idle:
		return "none made"
	}
	return "answered"
}

func (o *outcome) slowestError() string {
	if failed := failures(o.gets); len(failed) > 0 {
		return seconds(slowest(failed))
	}
	return "–"
}

// markedAfter returns when the last place showed the fault.
func (o *outcome) markedAfter() string {
	switch {
	case len(o.seen) == len(places()):
		return seconds(slices.Max(slices.Collect(maps.Values(o.seen))))
	case o.fault.unmarked:
		return "–"
	case len(o.seen) == 0:
		return "not marked"
	}
	return "only in " + strings.Join(slices.Sorted(maps.Keys(o.seen)), ", ")
}

func (o *outcome) healedAfter() string {
	if o.healed < 0 {
		return "not within " + seconds(convalescence)
	}
	return seconds(o.healed)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func percent(gets []get) string {
	good := len(gets) - len(failures(gets))
	if good == len(gets) {
		return "100 %"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(good)/float64(len(gets)))
}

// progress is one line about a fault that has been watched.
func progress(o *outcome, busy bool) string {
	if err := errBroken(o.broken(busy)); err != nil {
		return "FAILED " + o.fault.name + ": " + err.Error()
	}
	return "ok     " + o.fault.name
}

// writeTable replaces the table in a Markdown file.
func writeTable(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), tableBegin)
	_, tail, end := strings.Cut(rest, tableEnd)
	if !ok || !end {
		return errors.New(path + " has no place for the table")
	}
	return os.WriteFile(path, []byte(head+tableBegin+"\n"+table+"\n"+tableEnd+tail), 0o644) //nolint:gosec // a document
}

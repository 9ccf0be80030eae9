package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// recording is what a gateway writes down and exports while it is measured.
type recording struct {
	name string
	// sampler is the OTEL_TRACES_SAMPLER, with its argument; nil where nothing is exported.
	sampler []string
}

var onePercent = recording{ //nolint:gochecknoglobals // a constant
	"everything on, 1 % of traces", []string{"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.01"},
}

func recordings() []recording {
	return []recording{
		{"audit log", nil},
		onePercent,
		{"everything on, every trace", []string{"OTEL_TRACES_SAMPLER=parentbased_always_on"}},
	}
}

// compareRecording compares a gateway that records what it can with the same one, or with the build of -against, that records nothing.
func compareRecording(ctx context.Context, s settings) error {
	if s.against == "" {
		s.against = filepath.Join(s.bin, "promptweir")
	}
	printPairsHeading(s, "off", "on")
	for _, c := range pairCases()[:2] { // small gets: what is recorded does not depend on the size
		for _, r := range recordings() {
			recorded := c
			recorded.name += ", " + r.name
			if !s.only.MatchString(recorded.name) {
				continue
			}
			if err := recorded.compareRecording(ctx, s, r); err != nil {
				return fmt.Errorf("%s: %w", recorded.name, err)
			}
		}
	}
	return nil
}

func (c pairCase) compareRecording(ctx context.Context, s settings, r recording) error {
	st := newStage(s)
	defer st.close()
	added, sink, err := r.addTo(ctx, st)
	if err != nil {
		return err
	}
	s.added.blocks += added.blocks
	s.added.environment = added.environment
	if err := c.compare(ctx, s); err != nil || r.sampler == nil {
		return err
	}
	return wantExports(ctx, sink)
}

// addTo returns what makes a gateway record, and what it exports to, if it does.
func (r recording) addTo(ctx context.Context, st *stage) (added addition, sink program, err error) {
	path, err := st.file("audit.jsonl", nil)
	if err != nil {
		return added, sink, err
	}
	added.blocks = fmt.Sprintf("audit {\n  path = %q\n  access = true\n}\n", path)
	if r.sampler == nil {
		return added, sink, nil
	}
	if sink, err = st.reference(ctx, "sink"); err != nil {
		return added, sink, err
	}
	added.environment = append([]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + sink.address(), "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_METRIC_EXPORT_INTERVAL=10000", // a minute would be longer than most runs
	}, r.sampler...)
	return added, sink, nil
}

// wantExports returns an error unless the sink got something of each signal: what is not recorded costs nothing.
func wantExports(ctx context.Context, sink program) error {
	text, err := fetch(ctx, "http://"+sink.address())
	if err != nil {
		return err
	}
	var traces, metrics, logs int
	if _, err := fmt.Sscan(string(text), &traces, &metrics, &logs); err != nil {
		return err
	}
	if traces == 0 || metrics == 0 || logs == 0 {
		return fmt.Errorf("exported %d times traces, %d metrics, %d logs; want some of each", traces, metrics, logs)
	}
	return nil
}

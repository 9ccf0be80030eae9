package gateway_test

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkChange_PromptFiles measures how long a change of one of 10 000 files takes to reach a listening client, from the
// write to the notification, and then how long their first list takes after the start of a gateway.
func BenchmarkChange_PromptFiles(b *testing.B) {
	f := newPromptFolder(b, "team \"eng\" {\n  upstream \"book\" { files = [\"p/**/*.md\"] }\n}\n")
	text := func(i int, description string) string {
		return fmt.Sprintf("---\ntitle: Prompt %d\ndescription: %s\narguments:\n  - name: notes\n    description: What was seen.\n    required: true\n---\n"+
			"Write report %d from these notes:\n\n{{notes}}\n", i, description, i)
	}
	name := func(i int) string { return fmt.Sprintf("p/%02d/prompt_%d.md", i%100, i) }
	for i := range 10_000 {
		f.write(name(i), text(i, "Turn notes into a report."))
	}
	begun := time.Now()
	s := f.serve()
	s.Modern("").Call("prompts/list", "").Want(b, http.StatusOK, `"name":"book.prompt_0"`)
	listed := time.Since(begun)
	changes := s.Modern("").Listen("1")
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		begun := time.Now()
		f.write(name(i), text(i, fmt.Sprintf("Changed %d times.", i)))
		for !strings.Contains(changes.Next().Data, "list_changed") { // anything else is for the client's transport
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	b.ReportMetric(float64(listed.Milliseconds()), "ms-to-list")
	b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "ms-p99")
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapAlloc)/1e6, "MB-heap")
}

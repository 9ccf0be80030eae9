package admin

import (
	"sync"
	"time"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/audit"
	"github.com/promptweir/promptweir/gateway/catalog"
)

// usageInterval is the minimum time between two reads of the audit log.
const usageInterval = time.Minute

// usageCache contains the result of the last read of the audit log.
type usageCache struct {
	mu    sync.Mutex // guards the fields below
	read  time.Time
	usage *audit.Usage
	err   error
}

// Usage returns the use of all prompts according to the audit log, which it reads at most once a
// minute. The error is a [*QueryError] if there is no log that the gateway can read.
func (v *View) Usage() (*audit.Report, error) {
	s := v.Snapshot()
	switch a := s.Config.Audit; {
	case a == nil:
		return nil, &QueryError{"there is no audit log: add audit { path = \"/var/log/promptweir/audit.jsonl\" }, and restart the gateway"}
	case a.Path == config.AuditToStdout:
		return nil, &QueryError{"the audit log goes to standard output, which the gateway cannot read: " +
			"run promptweir usage with the collected lines"}
	}
	names := exslices.CastFunc(s.Catalog.Entries(), func(e *catalog.Entry) string { return e.Name })
	c := &v.usage
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) >= usageInterval {
		c.usage, c.err = audit.ReadUsage(s.Config.Audit.Path)
		c.read = time.Now()
	}
	report := c.usage.Report(names, time.Now())
	if c.err != nil {
		report.Summary += "; part of the log cannot be read: " + c.err.Error()
	}
	return report, nil
}

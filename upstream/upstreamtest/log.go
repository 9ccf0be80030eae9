package upstreamtest

import (
	"bytes"
	"strings"
	"sync"
)

// Log keeps log lines in memory. It may be read while it is written.
type Log struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the log so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often the log has a text.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }

package client

import (
	"strings"
	"sync"
)

// childOutput keeps what a child process printed, as far as it tells a person why the process does not serve. Its methods are safe
// for concurrent use, and may be called on nil.
type childOutput struct {
	mu sync.Mutex // guards what follows
	// spoke is set once a message has come, after which a stray line explains nothing.
	spoke bool
	// stray is the first line of stdout that was not a message; last and failure are the last line of stderr, and the last one
	// that looks like an error.
	stray, last, failure string
}

// setSpoke records that a message has come.
func (o *childOutput) setSpoke() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spoke = true
}

// addGarbage records a line of stdout that was not a message.
func (o *childOutput) addGarbage(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stray == "" {
		o.stray = string(line[:min(len(line), maxQuoted+1)]) // quoted cuts it, and shows that it did
	}
}

// addStderr records a line of stderr.
func (o *childOutput) addStderr(line string) {
	line = line[:min(len(line), maxQuoted+1)]
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = line
	if strings.Contains(line, "rror: ") { // Node prints its version after that, and Python nothing
		o.failure = line
	}
}

// garbage returns the first line of stdout that was not a message, if no message has come.
func (o *childOutput) garbage() string {
	if o == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.spoke {
		return ""
	}
	return strings.TrimSpace(o.stray)
}

// lastWords continues a sentence about the process's end with what it said: on stderr or, failing that, on stdout.
func (o *childOutput) lastWords() string {
	stray := o.garbage()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.failure != "":
		return ": " + quoted(o.failure)
	case o.last != "":
		return ": " + quoted(o.last)
	case stray != "":
		return ", after printing " + quoted(stray)
	}
	return ""
}

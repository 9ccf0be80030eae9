package screen

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
)

// block is a screen block, with the throttle for reports about it.
type block struct {
	*config.Screen

	throttle *rate.Sometimes
	// instructions are those of its patterns.
	instructions int
}

// exceeds reports whether the block's patterns could take more steps of a value than they may.
func (b block) exceeds(raw []byte) bool { return int64(len(raw))*int64(b.instructions) > maxSteps }

// Finding is one thing that a block forbids.
type Finding struct {
	Block *config.Screen
	// Check is the part of the block that found it: size, content, wellformed, invisible, or
	// "pattern" and its number.
	Check string
	// At is where, as a JSON Pointer; empty for the whole.
	At string

	throttle *rate.Sometimes
}

// String describes the finding without repeating what was found.
func (f Finding) String() string {
	// Pointer and label are enough to find text and block. The text itself stays out of logs and
	// errors.
	at := ""
	if f.At != "" {
		at = " at " + f.At
	}
	return fmt.Sprintf("%s%s (screen %q)", f.Check, at, f.Block.Label)
}

// Throttle calls report at most once a minute for the finding's block.
func (f Finding) Throttle(report func()) { f.throttle.Do(report) }

// isName reports whether the string that was read last is the name of a member.
func isName(at *jsontext.Decoder) bool {
	kind, length := at.StackIndex(at.StackDepth())
	return kind == '{' && length%2 == 1
}

// The parts of a pointer that may be shown are short and of few characters: nobody can put much of
// a message into them.
const (
	plain    = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
	maxPlain = 64
)

// pointer returns the JSON Pointer of the string that was read last, without names that may carry a
// message.
func pointer(at *jsontext.Decoder) string {
	whole := at.StackPointer()
	if isName(at) { // the name itself is what was found
		whole = whole.Parent()
	}
	var out strings.Builder
	for part := range whole.Tokens() {
		out.WriteString("/" + shown(part))
	}
	return out.String()
}

// shown returns a name as it may be shown in a pointer.
func shown(name string) string {
	if name != "" && len(name) <= maxPlain && strings.Trim(name, plain) == "" {
		return name
	}
	return "…"
}

package screen

import (
	"context"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

// reportInterval is the minimum time between reports about one block, see [Finding.Throttle].
const reportInterval = time.Minute

const (
	// maxSteps bounds the patterns of one block for one definition or result: its bytes times the
	// instructions of the patterns. It depends on nothing else, so that a block decides alike on
	// every machine at any load.
	maxSteps int64 = 1 << 32 // an int is too small on some machines
	// Up to quickSteps, the time needs no bound.
	quickSteps = 1 << 24
	// resultBound bounds the time to screen one result.
	resultBound = 5 * time.Second
)

// Screen is a list of screen blocks, applied in order. A nil Screen finds nothing.
type Screen struct {
	blocks []block
	// instructions is the sum of the blocks' instructions.
	instructions int64
}

// New returns a screen with these blocks; nil if there are none.
func New(blocks []config.Screen) *Screen {
	if len(blocks) == 0 {
		return nil
	}
	s := &Screen{}
	for i := range blocks {
		// The throttle is a pointer, because copies of blocks and findings share it.
		b := block{&blocks[i], &rate.Sometimes{First: 1, Interval: reportInterval}, 0}
		for _, re := range b.Patterns {
			b.instructions += instructions(re)
		}
		s.blocks = append(s.blocks, b)
		s.instructions += b.instructions
	}
	return s
}

// instructions returns the size of a regular expression's program. Each byte of a text takes up to
// as many steps.
func instructions(re *regexp.Regexp) int64 {
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		panic(err) // it was compiled before
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		panic(err)
	}
	return int64(len(program.Inst))
}

// Outcome is the result of screening one definition or result.
type Outcome struct {
	// JSON is the value to pass on, unless it was rejected.
	JSON jsontext.Value
	// Rejected is the finding that rejected it; nil for none.
	Rejected *Finding
	// Noted contains the first 100 findings that were stripped or let through.
	Noted []Finding
}

// Definition screens a prompt's definition and its exposed name. If ctx ends, it returns the
// context's error within a moment, however costly the screen is.
func (s *Screen) Definition(ctx context.Context, raw jsontext.Value, exposed string) (Outcome, error) {
	return s.screen(ctx, raw, false, exposed)
}

// Result screens the result of a get or completion, or the params of a relayed server request or
// notification. A requestState belongs to the upstream and is not checked. The error is the
// context's, or [context.DeadlineExceeded] after five seconds.
func (s *Screen) Result(ctx context.Context, raw jsontext.Value) (Outcome, error) {
	if s == nil {
		return Outcome{JSON: raw}, nil
	}
	if int64(len(raw))*s.instructions <= quickSteps {
		return s.screen(context.WithoutCancel(ctx), raw, true, "")
	}
	ctx, cancel := context.WithTimeout(ctx, resultBound)
	defer cancel()
	return s.screen(ctx, raw, true, "")
}

// File screens the result of reading a skill's file other than its SKILL.md. It checks only whether
// the file is of an allowed kind. [Screen.Result] screens a SKILL.md.
func (s *Screen) File(raw jsontext.Value) Outcome {
	if s == nil {
		return Outcome{JSON: raw}
	}
	p := pass{screen: s, raw: raw}
	for _, b := range s.blocks {
		p.checkSkill(b)
	}
	return Outcome{JSON: raw, Rejected: p.rejected, Noted: p.noted}
}

// NestedSkill screens the front matter of a file within a skill's folder that a host may treat as a
// skill of its own. front is nil if it cannot be read.
func (s *Screen) NestedSkill(front jsontext.Value) Outcome {
	if s == nil {
		return Outcome{}
	}
	p := pass{screen: s}
	for _, b := range s.blocks {
		if b.Skills && wire.Members(front) == nil {
			p.reject(b, "skills", "/frontmatter")
		}
		p.checkFrontmatter(b, wire.Members(front))
	}
	return Outcome{JSON: jsontext.Value("{}"), Rejected: p.rejected, Noted: p.noted}
}

// screen returns an outcome, or the error of ctx if it has ended.
func (s *Screen) screen(ctx context.Context, raw jsontext.Value, isResult bool, exposed string) (Outcome, error) {
	if s == nil {
		return Outcome{JSON: raw}, ctx.Err()
	}
	p := pass{screen: s, raw: raw, canceled: ctx.Done()}
	p.checkWhole(isResult)
	p.checkStrings()
	p.checkName(exposed)
	switch err := ctx.Err(); {
	case err != nil:
		return Outcome{}, err
	case p.rejected != nil: // without JSON, so that it cannot be passed on by mistake
		return Outcome{Rejected: p.rejected, Noted: p.noted}, nil
	case p.out == nil:
		return Outcome{JSON: raw, Noted: p.noted}, nil
	}
	return Outcome{JSON: append(p.out, raw[p.copied:]...), Noted: p.noted}, nil
}

// block is a screen block with the throttle of its reports.
type block struct {
	*config.Screen

	throttle *rate.Sometimes
	// instructions is the sum over its patterns.
	instructions int64
}

// exceeds reports whether the block's patterns could take too many steps for a value.
func (b block) exceeds(raw []byte) bool { return int64(len(raw))*b.instructions > maxSteps }

// Finding is a violation of one block.
type Finding struct {
	Block *config.Screen
	// Check is the part of the block that found it: size, content, wellformed, skills, invisible,
	// or "pattern" and its number. If the value cannot be checked, it is budget, unreadable or "too
	// much to strip".
	Check string
	// At is the location as a JSON Pointer; empty for the whole.
	At string

	throttle *rate.Sometimes
}

// String describes the finding without the text that was found.
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

// isName reports whether the last string is the name of a member.
func isName(at *jsontext.Decoder) bool {
	kind, length := at.StackIndex(at.StackDepth())
	return kind == '{' && length%2 == 1
}

// Names in a shown pointer are short and have few kinds of characters, so that they cannot carry a
// message.
const (
	plain    = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
	maxPlain = 64
)

// pointer returns the JSON Pointer of the last string, without names that may carry a message.
func pointer(at *jsontext.Decoder) string {
	whole := at.StackPointer()
	if isName(at) { // the finding is in the name itself
		whole = whole.Parent()
	}
	var out strings.Builder
	for part := range whole.Tokens() {
		out.WriteString("/" + shown(part))
	}
	return out.String()
}

// shown returns a name in the form for a pointer.
func shown(name string) string {
	if len(name) <= maxPlain && strings.Trim(name, plain) == "" {
		return name
	}
	return "…"
}

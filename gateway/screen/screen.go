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

// reportInterval is how often [Finding.Throttle] lets through a report about the same block.
const reportInterval = time.Minute

const (
	// maxSteps bounds what the patterns of one block may take of one definition or result: its
	// bytes times the instructions of the patterns. It depends on nothing else, so that a block
	// decides alike on every machine at any load.
	maxSteps int64 = 1 << 32 // more than an int holds on some machines
	// quickSteps need no bound on the time.
	quickSteps = 1 << 24
	// resultBound is the time that screening one result may take.
	resultBound = 5 * time.Second
)

// Screen is a list of screen blocks, applied in order. The nil Screen finds nothing.
type Screen struct {
	blocks []block
	// instructions are those of all patterns.
	instructions int64
}

// New returns a screen of these blocks, nil if there are none.
func New(blocks []config.Screen) *Screen {
	if len(blocks) == 0 {
		return nil
	}
	s := &Screen{}
	for i := range blocks {
		// The throttle by a pointer: blocks and findings are copied, and share it.
		b := block{&blocks[i], &rate.Sometimes{First: 1, Interval: reportInterval}, 0}
		for _, re := range b.Patterns {
			b.instructions += instructions(re)
		}
		s.blocks = append(s.blocks, b)
		s.instructions += b.instructions
	}
	return s
}

// instructions returns the size of the program of a regular expression: each byte of a text takes
// up to as many steps.
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
	// JSON is what may be passed on; nil if it is rejected.
	JSON jsontext.Value
	// Rejected is the finding for which it is rejected; nil if it is not.
	Rejected *Finding
	// Noted has the first 100 findings that were stripped or let through.
	Noted []Finding
}

// Definition screens a prompt's definition, and the name by which clients know the prompt. The
// error is that of ctx if it ended meanwhile, which takes a moment at most, however costly the
// screen is.
func (s *Screen) Definition(ctx context.Context, raw jsontext.Value, exposed string) (Outcome, error) {
	return s.screen(ctx, raw, nil, exposed)
}

// Result screens the result of a get or of a completion, or the params of a server request or
// notification that is relayed meanwhile. A requestState belongs to the upstream and is left alone.
// The error is that of ctx if it ended meanwhile, or [context.DeadlineExceeded] after five seconds.
func (s *Screen) Result(ctx context.Context, raw jsontext.Value) (Outcome, error) {
	if s == nil {
		return Outcome{JSON: raw}, nil
	}
	if int64(len(raw))*s.instructions <= quickSteps {
		return s.screen(context.WithoutCancel(ctx), raw, contentTypes, "")
	}
	ctx, cancel := context.WithTimeout(ctx, resultBound)
	defer cancel()
	return s.screen(ctx, raw, contentTypes, "")
}

// File screens the result of reading a file of a skill that is not its SKILL.md, for which
// [Screen.Result] is: only whether it may be one.
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

// NestedSkill screens the front matter of a file beneath a skill's folder that some host may take for a
// skill of its own; nil if it cannot be read.
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

// screen returns an outcome, which would mean nothing if ctx has ended by then.
func (s *Screen) screen(
	ctx context.Context, raw jsontext.Value, types func(jsontext.Value) []contentType, exposed string,
) (Outcome, error) {
	if s == nil {
		return Outcome{JSON: raw}, ctx.Err()
	}
	p := pass{screen: s, raw: raw, canceled: ctx.Done()}
	p.checkWhole(types)
	p.checkStrings()
	p.checkName(exposed)
	switch err := ctx.Err(); {
	case err != nil:
		return Outcome{}, err
	case p.rejected != nil: // without JSON, so that nobody passes it on by mistake
		return Outcome{Rejected: p.rejected, Noted: p.noted}, nil
	case p.out == nil:
		return Outcome{JSON: raw, Noted: p.noted}, nil
	}
	return Outcome{JSON: append(p.out, raw[p.copied:]...), Noted: p.noted}, nil
}

// block is a screen block, with the throttle for reports about it.
type block struct {
	*config.Screen

	throttle *rate.Sometimes
	// instructions are those of its patterns.
	instructions int64
}

// exceeds reports whether the block's patterns could take more steps of a value than they may.
func (b block) exceeds(raw []byte) bool { return int64(len(raw))*b.instructions > maxSteps }

// Finding is one thing that a block forbids.
type Finding struct {
	Block *config.Screen
	// Check is the part of the block that found it: size, content, wellformed, skills, invisible, or
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
	if len(name) <= maxPlain && strings.Trim(name, plain) == "" {
		return name
	}
	return "…"
}

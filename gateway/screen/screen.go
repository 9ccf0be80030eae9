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
	// maxSteps bounds the cost of one block for one definition or result: the bytes of the value times
	// the instructions of the patterns. A bound in seconds would depend on the machine and its load.
	maxSteps int64 = 1 << 32 // int64, because an int has 32 bits on some machines
	// quickSteps is the cost up to which a result is screened without a time limit.
	quickSteps = 1 << 24
	// resultBound is the time limit for screening one result.
	resultBound = 5 * time.Second
)

// Screen is a list of screen blocks, applied in order. A nil Screen finds nothing.
type Screen struct {
	blocks []block
	// instructions is the sum of the blocks' instructions.
	instructions int64
}

// New returns a screen of the blocks, or nil if there are none. It keeps a reference to the blocks.
func New(blocks []config.Screen) *Screen {
	if len(blocks) == 0 {
		return nil
	}
	s := &Screen{}
	for i := range blocks {
		// The throttle is a pointer: copies of the block and its findings share it.
		b := block{&blocks[i], &rate.Sometimes{First: 1, Interval: reportInterval}, 0}
		for _, re := range b.Patterns {
			b.instructions += instructions(re)
		}
		s.blocks = append(s.blocks, b)
		s.instructions += b.instructions
	}
	return s
}

// instructions returns the number of instructions in a regular expression's program. Matching takes
// at most as many steps per byte of text.
func instructions(re *regexp.Regexp) int64 {
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		panic(err) // cannot happen: re was compiled from this text
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		panic(err)
	}
	return int64(len(program.Inst))
}

// Outcome is the result of screening one definition or result.
type Outcome struct {
	// JSON is the value to pass on. Do not use it if Rejected is set.
	JSON jsontext.Value
	// Rejected is the finding that rejected the value, or nil if the value was not rejected.
	Rejected *Finding
	// Noted contains the first 100 findings that were stripped or that only caused a warning.
	Noted []Finding
}

// Definition screens a prompt's definition and its exposed name. If ctx ends, it soon returns the
// error of ctx.
func (s *Screen) Definition(ctx context.Context, raw jsontext.Value, exposed string) (Outcome, error) {
	return s.screen(ctx, raw, false, exposed)
}

// Result screens the result of a get or completion, or the params of a relayed server request or
// notification. It does not check the requestState of a result. The error is the error of ctx, or
// [context.DeadlineExceeded] after five seconds. Cheap screens ignore ctx.
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

// File screens the result of reading a skill's file other than SKILL.md: blocks with skills = "text"
// reject programs. Use [Screen.Result] for a SKILL.md.
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

// NestedSkill screens the front matter of a file in a skill's folder that clients may treat as
// another skill. A nil front stands for front matter that cannot be parsed: skills = "text" rejects
// it.
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

// screen makes all checks. Its error is the error of ctx.
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

// block is a screen block with the state of its reports.
type block struct {
	*config.Screen

	throttle *rate.Sometimes
	// instructions is the sum of the instructions of its patterns.
	instructions int64
}

// exceeds reports whether the block's patterns could take too many steps for a value.
func (b block) exceeds(raw []byte) bool { return int64(len(raw))*b.instructions > maxSteps }

// Finding is a violation of one block.
type Finding struct {
	Block *config.Screen
	// Check is the check that failed: size, content, wellformed, skills, invisible, or "pattern" and
	// its number. For a value that cannot be checked, it is budget, unreadable or "too much to strip".
	Check string
	// At is the location as a JSON Pointer, or "" for the whole value.
	At string

	throttle *rate.Sometimes
}

// String returns the check, the location and the label of the block. It does not repeat the text that
// was found, which must not get into logs and errors.
func (f Finding) String() string {
	at := ""
	if f.At != "" {
		at = " at " + f.At
	}
	return fmt.Sprintf("%s%s (screen %q)", f.Check, at, f.Block.Label)
}

// Throttle calls report at most once a minute for the finding's block.
func (f Finding) Throttle(report func()) { f.throttle.Do(report) }

// isName reports whether the decoder's last string is the name of a member.
func isName(at *jsontext.Decoder) bool {
	kind, length := at.StackIndex(at.StackDepth())
	return kind == '{' && length%2 == 1
}

// A pointer contains only short names of these characters: other names could carry a message into
// logs.
const (
	plain    = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
	maxPlain = 64
)

// pointer returns the JSON Pointer of the decoder's last string. If that string is the name of a member, it
// returns the pointer of the object.
func pointer(at *jsontext.Decoder) string {
	whole := at.StackPointer()
	if isName(at) {
		whole = whole.Parent()
	}
	var out strings.Builder
	for part := range whole.Tokens() {
		out.WriteString("/" + maskedName(part))
	}
	return out.String()
}

// maskedName returns a name that is short and plain, or "…" for any other name.
func maskedName(name string) string {
	if len(name) <= maxPlain && strings.Trim(name, plain) == "" {
		return name
	}
	return "…"
}

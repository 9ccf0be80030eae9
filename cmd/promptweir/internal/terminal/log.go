package terminal

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/promptweir/promptweir/upstream/wire"
)

// LogHandler is a slog.Handler for a person at a terminal: a short time, the level in colour, and
// what is wrong with an upstream as a sentence. Text that is not the gateway's own cannot act on
// the terminal.
type LogHandler struct {
	out   io.Writer
	level slog.Level
	color bool
	// attrs are those of WithAttrs, group the prefix of further ones.
	attrs []slog.Attr
	group string

	mu *sync.Mutex // serialises writes to out; derived handlers share it
}

// NewLogHandler returns a handler that writes to out, in colours if color is set.
func NewLogHandler(out io.Writer, level slog.Level, color bool) *LogHandler {
	return &LogHandler{out: out, level: level, color: color, mu: new(sync.Mutex)}
}

// Enabled implements slog.Handler.
func (h *LogHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// Handle implements slog.Handler.
func (h *LogHandler) Handle(_ context.Context, r slog.Record) error {
	line := &logLine{color: h.color}
	line.paint(dim, r.Time.Format(time.TimeOnly))
	line.text.WriteByte(' ')
	line.level(r.Level)
	line.text.WriteString(" " + wire.Printable(r.Message))
	// A clone: records of several goroutines would append to the same array.
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		a.Key = h.group + a.Key
		attrs = append(attrs, a)
		return true
	})
	line.attributes(attrs)
	line.text.WriteString("\n" + line.below.String())
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, line.text.String())
	return err
}

// WithAttrs implements slog.Handler.
func (h *LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		a.Key = h.group + a.Key
		next.attrs = append(next.attrs, a)
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *LogHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}

// The colours of the terminal, as parameters of SGR (ECMA-48).
const (
	dim    = "2"
	red    = "31"
	yellow = "33"
	green  = "32"
)

// logLine is a record as it is being written.
type logLine struct {
	color bool
	text  strings.Builder
	// below has values of several lines, which follow the line.
	below strings.Builder
}

func (l *logLine) paint(color, text string) {
	if !l.color {
		l.text.WriteString(text)
		return
	}
	l.text.WriteString("\x1b[" + color + "m" + text + "\x1b[0m")
}

// level writes a level in five columns.
func (l *logLine) level(level slog.Level) {
	color := green
	switch {
	case level >= slog.LevelError:
		color = red
	case level >= slog.LevelWarn:
		color = yellow
	case level < slog.LevelInfo:
		color = dim
	}
	name := level.String()
	l.paint(color, name+strings.Repeat(" ", max(0, len("ERROR")-len(name))))
}

// attributes writes attributes. Those that explain trouble become a sentence, which says the same
// as error in better words. Else an error of one line ends the sentence of the message.
func (l *logLine) attributes(attrs []slog.Attr) {
	texts := map[string]string{}
	for _, a := range attrs {
		texts[a.Key] = a.Value.Resolve().String()
	}
	var said []string // keys of what is in the sentence
	switch failure := texts["error"]; {
	case texts["cause"] != "":
		sentence := ": " + texts["upstream"] + InBrackets(texts["place"]) + ": " + texts["cause"]
		if texts["remedy"] != "" {
			sentence += "; " + texts["remedy"]
		}
		l.text.WriteString(wire.Printable(sentence))
		said = []string{"upstream", "team", "place", "reason", "cause", "remedy", "error"}
	case texts["report"] != "": // which names its upstream
		l.text.WriteString(": " + wire.Printable(texts["report"]))
		said = []string{"upstream", "report"}
	case failure != "" && !strings.Contains(failure, "\n"):
		l.text.WriteString(": " + wire.Printable(failure))
		said = []string{"error"}
	}
	attrs = slices.DeleteFunc(attrs, func(a slog.Attr) bool { return slices.Contains(said, a.Key) })
	for _, a := range attrs {
		text := a.Value.Resolve().String()
		if lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n"); len(lines) > 1 {
			for _, line := range lines {
				l.below.WriteString("    " + wire.Printable(line) + "\n")
			}
			continue
		}
		l.text.WriteByte(' ')
		l.paint(dim, wire.Printable(a.Key)+"=")
		isOdd := func(r rune) bool { return strings.ContainsRune(` "=`, r) || !unicode.IsPrint(r) }
		// Quoted, what could act on the terminal is an escape, and nothing is lost.
		if text == "" || strings.ContainsFunc(text, isOdd) {
			text = strconv.Quote(text)
		}
		l.text.WriteString(text)
	}
}

package syncdir

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// Prompt is a prompt of the source, with its text.
type Prompt struct {
	Name, Description string
	// Arguments are the names of the arguments for which people can fill in values.
	Arguments []string
	// Definition is the hash of the definition, as in a lock file.
	Definition [sha256.Size]byte
	// Pieces are the parts of the text, in order.
	Pieces []Piece
	// Taken is the time at which the text of a snapshot was fetched. It is zero for a template.
	Taken time.Time
	// Without are the names of the arguments for which the snapshot has no values.
	Without []string
	// Refused is the reason why the prompt cannot have a file, Absent the reason why its text is currently
	// unknown.
	Refused, Absent error
}

// Piece is a literal text or an argument.
type Piece struct {
	Text string
	// Argument is the number of the argument, counted from 1, or 0 if the piece is a text.
	Argument int
}

// Mark returns the placeholder of an argument, counted from 1, in a text for [Cut]. A server cannot guess the
// secret, so a text contains only marks that were sent as values.
func Mark(secret string, argument int) string { return secret + strconv.Itoa(argument) + "." }

// Cut cuts a text at its marks. Marks beyond the prompt's arguments are text.
func Cut(text, secret string, arguments int) (pieces []Piece) {
	end := 0 // the end of the last mark
	for _, at := range regexp.MustCompile(regexp.QuoteMeta(secret)+`([1-9][0-9]{0,3})\.`).FindAllStringSubmatchIndex(text, -1) {
		argument, _ := strconv.Atoi(text[at[2]:at[3]])
		if argument > arguments {
			continue
		}
		if end < at[0] {
			pieces = append(pieces, Piece{Text: text[end:at[0]]})
		}
		pieces = append(pieces, Piece{Argument: argument})
		end = at[1]
	}
	if end < len(text) {
		pieces = append(pieces, Piece{Text: text[end:]})
	}
	return pieces
}

// Replacement returns the value that stands in replaced at each place where text has the mark, or "" if the
// texts differ in other places too.
func Replacement(text, mark, replaced string) string {
	parts := strings.Split(text, mark)
	marks := len(parts) - 1
	total := len(replaced) - len(strings.Join(parts, ""))
	if marks == 0 || total <= 0 || len(parts[0])+total/marks > len(replaced) {
		return ""
	}
	value := replaced[len(parts[0]):][:total/marks]
	if strings.Join(parts, value) != replaced {
		return ""
	}
	return value
}

// render returns the content of a prompt's file, and the features of the prompt that the format lacks. The
// error is the reason why the prompt gets no file.
func (t *Target) render(p *Prompt, source string) (content []byte, lacks string, err error) {
	names := identifiers(p.Arguments)
	var plain, text strings.Builder // plain is searched for live syntax, text goes into the file
	var named []string
	for i, piece := range p.Pieces {
		if piece.Argument == 0 {
			if strings.Contains(piece.Text, gapMark) {
				return nil, "", errors.New("its text has a NUL character")
			}
			escaped, ok := piece.Text, true
			if t.escape != nil {
				escaped, ok = t.escape(p, names, piece.Text)
			}
			if !ok {
				return nil, "", fmt.Errorf("%s would fill in a placeholder in its text, and the "+
					"backslash before it leaves no way to escape it", t.Title)
			}
			plain.WriteString(piece.Text)
			text.WriteString(escaped)
			continue
		}
		next, place, mark := "", "", gapMark
		if i+1 < len(p.Pieces) {
			next = p.Pieces[i+1].Text
		}
		if t.place != nil {
			place = t.place(p, names, piece.Argument-1, next)
		}
		if place == "" {
			place = "⟨" + wire.Printable(p.Arguments[piece.Argument-1]) + "⟩"
			mark, named = place, append(named, place)
		}
		plain.WriteString(mark)
		text.WriteString(place)
	}
	for _, l := range t.live {
		if l.find(plain.String()) {
			return nil, "", fmt.Errorf("%s %s in its text, which a file cannot escape", t.Title, l.does)
		}
	}
	switch {
	case len(p.Without) > 0:
		lacks = "cannot hold " + strings.Join(p.Without, ", ")
	case len(named) > 0:
		lacks = "cannot hold " + strings.Join(slices.Compact(slices.Sorted(slices.Values(named))), ", ") + ": people type values after the name"
	}
	return seal(fileName(p.Name)+t.suffix, t.compose(p, header(p, source), text.String())), lacks, nil
}

var noIdent = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// identifiers returns a name for each argument that is valid in any placeholder.
func identifiers(arguments []string) []string {
	// $ARGUMENTS has another meaning in Claude Code.
	names, used := make([]string, len(arguments)), map[string]bool{"ARGUMENTS": true}
	for i, argument := range arguments {
		name := strings.Trim(noIdent.ReplaceAllString(argument, "_"), "_")
		if name == "" || used[name] || name[0] >= '0' && name[0] <= '9' {
			name = "argument_" + strconv.Itoa(i+1)
		}
		for used[name] { // the name may belong to another argument
			name += "_"
		}
		names[i], used[name] = name, true
	}
	return names
}

// maxDescription bounds a description in a file, in bytes. Agent Skills allow 1024 characters.
const maxDescription = 1000

func (p *Prompt) description() string { return quote(wire.Clip(p.Description, maxDescription)) }

// hint returns the line argument-hint of the front matter, or "" if the prompt has no arguments.
func (p *Prompt) hint() string {
	if len(p.Arguments) == 0 {
		return ""
	}
	return "argument-hint: " + quote("["+strings.Join(p.Arguments, "] [")+"]") + "\n"
}

func composeMarkdown(p *Prompt, head, text string) string {
	return "---\n" + head + "description: " + p.description() + "\n" + p.hint() + "---\n" + text
}

func composeClaude(p *Prompt, head, text string) string {
	words := ""
	if len(p.Arguments) > 1 {
		words = "arguments: [" + strings.Join(identifiers(p.Arguments), ", ") + "]\n"
	}
	return "---\n" + head + "description: " + p.description() + "\n" + p.hint() + words + "---\n" + text
}

// composeSkill writes colons instead of dots in the name: people type it after a dollar sign, where
// a dot would end it.
func composeSkill(p *Prompt, head, text string) string {
	description := p.description()
	if strings.TrimSpace(p.Description) == "" { // the field is required
		description = quote("The prompt " + p.Name)
	}
	name := strings.ReplaceAll(fileName(p.Name), ".", ":")
	return "---\n" + head + "name: " + quote(name) + "\ndescription: " + description + "\n---\n" + text
}

func composeTOML(p *Prompt, head, text string) string {
	var escaped strings.Builder
	for _, r := range text {
		switch {
		case r == '\\' || r == '"':
			escaped.WriteByte('\\')
			escaped.WriteRune(r)
		case r < ' ' && r != '\n' && r != '\t' || r == 0x7f:
			fmt.Fprintf(&escaped, `\u%04X`, r)
		default:
			escaped.WriteRune(r)
		}
	}
	// TOML drops the line break after the opening quotes, but keeps the text's first one.
	return head + "description = " + p.description() + "\nprompt = \"\"\"\n" + escaped.String() + "\"\"\"\n"
}

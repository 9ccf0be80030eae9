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

// Prompt is what a caller may see of a prompt, with its text.
type Prompt struct {
	Name, Description string
	// Arguments are their names.
	Arguments []string
	// Definition is the hash that a lock file has of it.
	Definition [sha256.Size]byte
	// Pieces are its text.
	Pieces []Piece
	// Taken is when a text was got that is no template; zero for a template.
	Taken time.Time
	// Without are the arguments that a snapshot was taken without.
	Without []string
	// Refused is why the prompt can have no file, and Absent why its text is unknown at the moment.
	Refused, Absent error
}

// Piece is a part of a text, or the place of an argument.
type Piece struct {
	Text string
	// Argument counts from 1; 0 is a text.
	Argument int
}

// Mark returns the placeholder of an argument, counted from 1, in a text for [Cut]. A server
// cannot guess the secret, so it can only write marks that it was sent.
func Mark(secret string, argument int) string { return secret + strconv.Itoa(argument) + "." }

// Cut cuts a text at its marks. A server can write marks of other arguments than the prompt has: these
// are text.
func Cut(text, secret string, arguments int) (pieces []Piece) {
	begin, at := 0, 0 // of the text since the last mark, and where the search is
	for {
		next := strings.Index(text[at:], secret)
		if next < 0 {
			break
		}
		mark := at + next
		at = mark + len(secret)
		number, _, _ := strings.Cut(text[at:min(at+len("1000."), len(text))], ".")
		argument, err := strconv.Atoi(number)
		if err != nil || argument < 1 || argument > arguments || !strings.HasPrefix(text[mark:], Mark(secret, argument)) {
			continue
		}
		if begin < mark {
			pieces = append(pieces, Piece{Text: text[begin:mark]})
		}
		pieces = append(pieces, Piece{Argument: argument})
		at = mark + len(Mark(secret, argument))
		begin = at
	}
	if begin < len(text) {
		pieces = append(pieces, Piece{Text: text[begin:]})
	}
	return pieces
}

// render returns the file of a prompt, and what its format lacks of it. The error says why there is no
// file.
func (t *Target) render(p *Prompt, source string) (content []byte, lacks string, err error) {
	names := identifiers(p.Arguments)
	var plain, text strings.Builder // as it is looked through, and as it is written
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

// identifiers returns a name for each argument that any placeholder may have.
func identifiers(arguments []string) []string {
	// To Claude Code, $ARGUMENTS is all that people type.
	names, taken := make([]string, len(arguments)), map[string]bool{"ARGUMENTS": true}
	for i, argument := range arguments {
		name := strings.Trim(noIdent.ReplaceAllString(argument, "_"), "_")
		if name == "" || taken[name] || name[0] >= '0' && name[0] <= '9' {
			name = "argument_" + strconv.Itoa(i+1)
		}
		for taken[name] { // an argument before may be called so
			name += "_"
		}
		names[i], taken[name] = name, true
	}
	return names
}

// maxDescription bounds a description in a file, in bytes, as Agent Skills do.
const maxDescription = 1000

func (p *Prompt) description() string { return quote(wire.Clip(p.Description, maxDescription)) }

// hint returns the field that shows the arguments as people type; empty without any.
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

// composeSkill writes the name with colons: people type it after a dollar sign, where a dot ends it.
func composeSkill(p *Prompt, head, text string) string {
	description := p.description()
	if strings.TrimSpace(p.Description) == "" { // required
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
	// TOML drops the first line break, so that one with which the text begins stays.
	return head + "description = " + p.description() + "\nprompt = \"\"\"\n" + escaped.String() + "\"\"\"\n"
}

package config

import (
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

const masked = hclread.Masked

// hidden is a value that never shows itself: every way of printing it prints a mask.
type hidden[T any] struct{ value T }

type (
	// Secret is a text that never shows itself: every way of printing it prints a mask.
	Secret = hidden[string]
	// Key is 32 bytes of key material that never show themselves. The zero Key stands for none.
	Key = hidden[[32]byte]
)

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value, for the one place that puts it on the wire.
func (h hidden[T]) Reveal() T { return h.value }

func (hidden[T]) String() string { return masked }

// GoString masks the value under %#v.
func (hidden[T]) GoString() string { return masked }

// LogValue masks the value in a log.
func (hidden[T]) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText masks the value in JSON.
func (hidden[T]) MarshalText() ([]byte, error) { return []byte(masked), nil }

// How long what a [Mask] hides must be, in bytes: shorter texts are parts of ordinary words.
const (
	minMasked = 8 // a secret
	minCut    = 4 // what is left of one that was cut off
	// minInside is a part from inside of one, between what was printed before and after it.
	minInside = 64
)

// Mask hides the secrets of one upstream in text that its server had a part in: a server may repeat
// what it was sent, as the name of a member that an error quotes, for example.
//
// It finds secrets as they are, as a string of JSON spells them, and cut off at the end of a text
// or before an ellipsis, besides those of others that [SecretIn] finds. It does not find those that
// a server has encoded.
type Mask struct{ secrets []string }

// Mask returns the mask for the upstream's headers, environment, client credentials and sensitive
// addresses.
func (u Upstream) Mask() Mask {
	var m Mask
	for _, value := range u.Headers {
		_, credential, _ := strings.Cut(value.Reveal(), " ") // after the scheme, such as Bearer
		m.add(value.Reveal(), credential)
	}
	for _, value := range u.Env {
		m.add(value.Reveal())
	}
	if u.OAuth != nil {
		m.add(u.OAuth.ClientSecret.Reveal(), u.OAuth.PrivateKey.Reveal())
	}
	for i, value := range slices.Concat(u.URLs, u.Command) {
		if i < len(u.shown) && u.shown[i] == masked {
			m.add(value)
		}
		m.add(JoinedPassword(value))
		if begin, end, found := SecretIn(value); found {
			m.add(value[begin:end])
		}
	}
	return m
}

// add adds values, and each of their lines: what has several is printed line by line.
func (m *Mask) add(values ...string) {
	for _, value := range values {
		for _, part := range append(strings.Split(value, "\n"), value) {
			part = strings.TrimSpace(part)
			if len(part) < minMasked {
				continue
			}
			quoted := strconv.Quote(part)
			m.secrets = append(m.secrets, part, quoted[1:len(quoted)-1])
		}
	}
}

// Text returns a text with a mask in place of each secret.
func (m Mask) Text(text string) string {
	var out strings.Builder
	from := 0
	for at := 0; at < len(text); {
		n := m.at(text[at:])
		if n == 0 {
			at++
			continue
		}
		out.WriteString(text[from:at] + masked)
		at += n
		from = at
	}
	return HideInside(out.String() + text[from:])
}

// Line is [Mask.Text] for a line of output, which may begin with the rest of a secret: servers wrap
// lines wherever they are full. Before is what was printed before it, without line ends.
func (m Mask) Line(before, line string) string {
	longest := 0
	// Blanks at which lines are wrapped are not printed.
	before = strings.ReplaceAll(before, " ", "")
	for _, secret := range m.secrets {
		for n := len(secret) - 1; n > 0; n-- {
			rest := strings.TrimLeft(secret[n:], " ")
			// Where the secret goes on after the line too, a few bytes of it are as likely part of
			// a word.
			isRest := strings.HasPrefix(line, rest) || n+len(line) >= minMasked &&
				strings.HasPrefix(rest, line)
			if !isRest {
				continue
			}
			begin := strings.ReplaceAll(secret[:n], " ", "")
			// Of a long secret, the caller may not have kept all that was printed before.
			if strings.HasSuffix(before, begin) ||
				len(before) >= minInside && strings.HasSuffix(begin, before) {
				longest = max(longest, min(len(rest), len(line)))
			}
		}
	}
	if longest == 0 {
		return m.Text(line)
	}
	return masked + m.Text(line[max(longest, m.at(line)):])
}

// at returns the length of the longest secret, whole or cut off, that a text begins with, or 0.
func (m Mask) at(text string) int {
	longest := 0
	for _, secret := range m.secrets {
		n := 0
		for n < min(len(secret), len(text)) && secret[n] == text[n] {
			n++
		}
		rest := text[n:]
		isCut := rest == "" || strings.HasPrefix(rest, "…") || strings.HasPrefix(rest, "...")
		if n == len(secret) || n >= minCut && isCut {
			longest = max(longest, n)
		}
	}
	return longest
}

// Error returns an error whose text has masks, and which is otherwise what it was to [errors.Is]
// and [errors.As].
func (m Mask) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if shown := m.Text(text); shown != text {
		return &maskedError{shown, err}
	}
	return err
}

type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }

func (e *maskedError) Unwrap() error { return e.err }

var (
	secretName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)token|secret|passw|credential|cookie|authorization|api[-_]?key|access[-_]?key|private[-_]?key|^key$|_pat$|dsn$|(database|postgres|mongo(db)?|redis)_?ur[il]$`)
	})
	// queryParameter matches a parameter in a URL, wherever that stands.
	queryParameter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([?&])([^=?&#\s]+)=([^&#\s]+)`) })
	// givenWord matches a flag, a variable or a header in one word of a command line, and what
	// follows it.
	givenWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(-{0,2}([A-Za-z_][A-Za-z0-9_-]*)(?:=|: *))(.+)$`) })
	// urlPassword and namedPassword match what a URL and a connection string have of a password,
	// wherever they stand.
	urlPassword   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^\s/?#@:"']*:([^\s/?#"']+)@`) })
	namedPassword = sync.OnceValue(func() *regexp.Regexp {
		const names = `(?:password|passwd|pwd|passphrase|accountkey|sharedaccesskey|client[ _]?secret)\s*=\s*`
		return regexp.MustCompile(`(?i);\s*` + names + `([^;\n"']+)|\b` + names + `([^\s;,&"']+)`)
	})
	// joinedPassword matches a word of a command line such as mysql's -pPASSWORD, and no number,
	// address or longer flag.
	joinedPassword = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-p([^=]*[^=\d.:/].*)$`) })
	longFlag       = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^-(parallel|passthrough|path|pattern|persist|pid|plugin|poll|port|prefix|preset|pretty|print|prod|profile|project|protocol|provider|proxy|public|pull|push)`)
	})
	flagWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^--?([A-Za-z][A-Za-z0-9_-]*)$`) })
)

// IsSecretName reports whether the value of a variable, a header, a flag or a parameter of this
// name is a secret, as far as a name can tell.
func IsSecretName(name string) bool { return secretName().MatchString(name) }

// SecretIn returns where the first secret inside a text begins and ends that what is around it
// tells: in ://user:PASSWORD@ or ;Password=PASSWORD, for example.
func SecretIn(text string) (begin, end int, found bool) {
	if !strings.ContainsAny(text, "@=") {
		return 0, 0, false
	}
	for _, at := range [][]int{urlPassword().FindStringSubmatchIndex(text), namedPassword().FindStringSubmatchIndex(text)} {
		for group := 2; group < len(at); group += 2 {
			if at[group] >= 0 && (!found || at[group] < begin) {
				begin, end, found = at[group], at[group+1], true
			}
		}
	}
	return begin, end, found
}

// JoinedPassword returns the password in a word of a command line such as -pPASSWORD; empty if
// there is none.
func JoinedPassword(word string) string {
	joined := joinedPassword().FindStringSubmatch(word)
	if joined == nil || longFlag().MatchString(word) {
		return ""
	}
	return joined[1]
}

// HideInside masks the secrets inside a text, see [SecretIn].
func HideInside(text string) string {
	var out strings.Builder
	for {
		begin, end, found := SecretIn(text)
		if !found {
			return out.String() + text
		}
		out.WriteString(text[:begin] + masked)
		text = text[end:]
	}
}

// hideParameters masks the secrets inside a text, and the parameters in its URLs whose names are
// those of secrets.
func hideParameters(text string) string {
	if !strings.ContainsAny(text, "@=") {
		return text
	}
	return queryParameter().ReplaceAllStringFunc(HideInside(text), func(parameter string) string {
		parts := queryParameter().FindStringSubmatch(parameter)
		if !IsSecretName(parts[2]) {
			return parameter
		}
		return parts[1] + parts[2] + "=" + masked
	})
}

// hideWords masks what a command line has of secrets, as far as the names of flags, variables,
// headers and parameters tell.
func hideWords(words []string) []string {
	hidden := make([]string, len(words))
	follows := false // a word that is a secret, after a flag that names it
	for i, word := range words {
		given, flag := givenWord().FindStringSubmatch(word), flagWord().FindStringSubmatch(word)
		switch {
		case follows && flag == nil:
			hidden[i] = masked
		case given != nil && IsSecretName(given[2]):
			hidden[i] = given[1] + masked
		case JoinedPassword(word) != "":
			hidden[i] = "-p" + masked
		default:
			hidden[i] = hideParameters(word)
		}
		follows = flag != nil && IsSecretName(flag[1])
	}
	return hidden
}

package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

const masked = hclread.Masked

// hidden masks its value when it is printed, also in Go syntax and as JSON.
type hidden[T any] struct{ value T }

type (
	// Secret is a text that masks itself when it is printed.
	Secret = hidden[string]
	// Key is 32 bytes of key material, which are masked when printed. The zero Key means no key.
	Key = hidden[[32]byte]
)

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value.
func (h hidden[T]) Reveal() T { return h.value }

func (hidden[T]) String() string { return masked }

// GoString masks the value under %#v.
func (hidden[T]) GoString() string { return masked }

// MarshalText masks the value in JSON and in a log.
func (hidden[T]) MarshalText() ([]byte, error) { return []byte(masked), nil }

// The minimum lengths that a [Mask] hides, in bytes. Shorter texts would match parts of ordinary
// words.
const (
	minMasked = 8 // of a secret
	minCut    = 4 // of a secret whose end was cut off
	// minInside is for a part of a secret without its beginning and its end.
	minInside = 64
)

// Mask hides the secrets of one upstream in texts that its server influences. For example, a server may send a
// secret back as a name, which an error then quotes.
//
// It finds secrets in plain text, in JSON spelling, and cut off at the end of a text or before an ellipsis. It
// also finds secrets in the forms of [SecretIn]. It does not find secrets that a server has encoded.
type Mask struct{ secrets []maskedText }

// maskedText is a secret. dense is the secret without white space, at which servers wrap lines.
type maskedText struct{ text, dense string }

// Mask returns the mask for the upstream's headers, environment, client credentials, and the
// sensitive parts of its address, command and folder.
func (u Upstream) Mask() Mask {
	var m Mask
	for _, value := range u.Headers {
		_, credential, _ := strings.Cut(value.Reveal(), " ") // without the scheme, such as Bearer
		m.add(value.Reveal(), credential)
	}
	for _, value := range u.Env {
		m.add(value.Reveal())
	}
	if u.OAuth != nil {
		m.add(u.OAuth.ClientSecret.Reveal(), u.OAuth.PrivateKey.Reveal())
	}
	if u.hidesDir {
		m.add(u.Dir)
	}
	for i, value := range u.words() {
		if i < len(u.maskedWords) && u.maskedWords[i] == masked {
			m.add(value)
		}
		m.add(JoinedPassword(value))
		if begin, end, found := SecretIn(value); found {
			m.add(value[begin:end])
		}
	}
	return m
}

// add adds values, and each of their lines because servers print line by line. It skips texts shorter than
// minMasked.
func (m *Mask) add(values ...string) {
	for _, value := range values {
		for _, part := range append(strings.Split(value, "\n"), value) {
			part = strings.TrimSpace(part)
			if len(part) < minMasked {
				continue
			}
			m.secrets = append(m.secrets, maskedText{part, dense(part)})
			if quoted := strconv.Quote(part); len(quoted) > len(part)+2 {
				quoted = quoted[1 : len(quoted)-1]
				m.secrets = append(m.secrets, maskedText{quoted, dense(quoted)})
			}
		}
	}
	// The longest come first, because a secret may contain another.
	slices.SortStableFunc(m.secrets, func(a, b maskedText) int { return cmp.Compare(len(b.text), len(a.text)) })
}

// dense removes white space.
func dense(text string) string { return strings.Join(strings.Fields(text), "") }

// Text masks the secrets in a text.
func (m Mask) Text(text string) string {
	for _, secret := range m.secrets {
		text = secret.hideIn(text)
	}
	return HideInside(text)
}

// hideIn masks the secret in a text, whole or cut off.
func (s maskedText) hideIn(text string) string {
	var out strings.Builder
	for {
		at := strings.Index(text, s.text[:minCut]) // fast: few texts contain the beginning
		if at < 0 {
			return out.String() + text
		}
		n := commonPrefix(text[at:], s.text)
		rest := text[at+n:]
		isCut := rest == "" || strings.HasPrefix(rest, "…") || strings.HasPrefix(rest, "...")
		if n == len(s.text) || isCut {
			out.WriteString(text[:at] + masked)
			text = rest
		} else {
			out.WriteString(text[:at+1])
			text = text[at+1:]
		}
	}
}

// Line masks the secrets in a line of output. The line may begin with the rest of a secret, because servers
// wrap long lines. before is the earlier output without line ends.
func (m Mask) Line(before, line string) string {
	rest, printed, wrapped := 0, dense(before), dense(line)
	for _, secret := range m.secrets {
		rest = max(rest, restOf(secret.dense, printed, wrapped))
	}
	end := 0
	for rest > 0 {
		r, size := utf8.DecodeRuneInString(line[end:])
		if end += size; !unicode.IsSpace(r) {
			rest -= size
		}
	}
	if end == 0 {
		return m.Text(line)
	}
	return masked + m.Text(line[end:])
}

// restOf returns the length of the rest of a secret at the beginning of line. It is 0 unless before ends with the
// part of the secret in front of that rest.
func restOf(secret, before, line string) (longest int) {
	for n := 1; n < len(secret); n++ {
		// before may lack the beginning of a long secret, because the caller bounds its length.
		isBegun := strings.HasSuffix(before, secret[:n]) || len(before) >= minInside && strings.HasSuffix(secret[:n], before)
		if !isBegun {
			continue
		}
		rest := commonPrefix(line, secret[n:])
		// The rest must be complete, or fill the line. In the second case, a short match is probably a word.
		if n+rest == len(secret) || rest == len(line) && n+rest >= minMasked {
			longest = max(longest, rest)
		}
	}
	return longest
}

// Error masks the text of an error. [errors.Is] and [errors.As] still see the original.
func (m Mask) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if hidden := m.Text(text); hidden != text {
		return &maskedError{hidden, err}
	}
	return err
}

type maskedError struct {
	text string
	err  error
}

func (e *maskedError) Error() string { return e.text }

func (e *maskedError) Unwrap() error { return e.err }

// passwordName matches the names of passwords in connection strings.
const passwordName = `(?:password|passwd|pwd|passphrase|accountkey|sharedaccesskey|client[ _]?secret)\s*=\s*`

var (
	secretName = hclread.Lazily(`(?i)token|secret|passw|credential|cookie|authorization|api[-_]?key|access[-_]?key|` +
		`private[-_]?key|^key$|pgpass$|(^|[-_])pass$|passphrase|_pat$|dsn$|(database|postgres|mongo(db)?|redis)_?ur[il]$`)
	// queryParameter matches a parameter in a URL within a text.
	queryParameter = hclread.Lazily(`([?&])([^=?&#\s]+)=([^&#\s]+)`)
	// namedWord matches a flag, a variable or a header in one word of a command line, with its value.
	namedWord = hclread.Lazily(`^(-{0,2}([A-Za-z_][A-Za-z0-9_-]*)(?:=|: *))(.+)$`)
	// passwordInside matches a password in a URL or in a connection string within a text.
	passwordInside = hclread.Lazily(`(?i)://[^\s/?#@:"']*:([^\s/?#"']+)@|;\s*` + passwordName + `([^;\n"']+)|\b` + passwordName + `([^\s;,&"']+)`)
	// joinedPassword matches a word such as mysql's -pPASSWORD, unless it has only digits and separators, like a port
	// or an address. longFlag matches flags that begin with -p but contain no password.
	joinedPassword = hclread.Lazily(`^-p([^=]*[^=\d.:/].*)$`)
	longFlag       = hclread.Lazily(`^-(parallel|passthrough|path|pattern|persist|pid|plugin|poll|port|prefix|preset|` +
		`pretty|print|prod|profile|project|protocol|provider|proxy|public|pull|push)`)
	flagWord = hclread.Lazily(`^--?([A-Za-z][A-Za-z0-9_-]*)$`)
)

// IsSecretName reports whether a variable, header, flag or parameter has a secret value, judging by its name.
func IsSecretName(name string) bool { return secretName().MatchString(name) }

// SecretIn returns the bounds of the first secret that its surroundings reveal, such as ://user:PASSWORD@ or
// ;Password=PASSWORD.
func SecretIn(text string) (begin, end int, found bool) {
	if !strings.ContainsAny(text, "@=") {
		return 0, 0, false
	}
	at := passwordInside().FindStringSubmatchIndex(text)
	if at == nil {
		return 0, 0, false
	}
	begin, end = firstGroup(at)
	return begin, end, true
}

// firstGroup returns the bounds of the first group that matched.
func firstGroup(at []int) (begin, end int) {
	group := 2
	for at[group] < 0 {
		group += 2
	}
	return at[group], at[group+1]
}

// JoinedPassword returns the password in a word such as -pPASSWORD, or "" if there is none.
func JoinedPassword(word string) string {
	joined := joinedPassword().FindStringSubmatch(word)
	if joined == nil || longFlag().MatchString(word) {
		return ""
	}
	return joined[1]
}

// HideInside masks the secrets that [SecretIn] finds.
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

// hideParameters masks the secrets that [SecretIn] finds, and parameters of URLs with the names of secrets.
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

// hideWords masks the secrets of a command line, judging by the names of flags, variables, headers and
// parameters.
func hideWords(words []string) []string {
	hidden := make([]string, len(words))
	follows := false // true if the word before is a flag with a secret's name
	for i, word := range words {
		named, flag := namedWord().FindStringSubmatch(word), flagWord().FindStringSubmatch(word)
		switch {
		case follows && flag == nil:
			hidden[i] = masked
		case named != nil && IsSecretName(named[2]):
			hidden[i] = named[1] + masked
		case JoinedPassword(word) != "":
			hidden[i] = "-p" + masked
		default:
			hidden[i] = hideParameters(word)
		}
		follows = flag != nil && IsSecretName(flag[1])
	}
	return hidden
}

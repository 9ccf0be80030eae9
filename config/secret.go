package config

import (
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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
type Mask struct{ secrets []maskedText }

// maskedText is a secret, and the same without white space: lines are wrapped there.
type maskedText struct{ text, dense string }

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
	if u.hidesDir {
		m.add(u.Dir)
	}
	for i, value := range u.words() {
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
			m.secrets = append(m.secrets, maskedText{part, dense(part)})
			if quoted := strconv.Quote(part); len(quoted) > len(part)+2 {
				quoted = quoted[1 : len(quoted)-1]
				m.secrets = append(m.secrets, maskedText{quoted, dense(quoted)})
			}
		}
	}
}

// dense returns a text without white space.
func dense(text string) string { return strings.Join(strings.Fields(text), "") }

// Text returns a text with a mask in place of each secret.
func (m Mask) Text(text string) string {
	lengths := m.lengths(text)
	if lengths == nil {
		return HideInside(text)
	}
	var out strings.Builder
	from := 0
	for at := 0; at < len(text); {
		end := at + lengths[at]
		if end == at {
			at++
			continue
		}
		out.WriteString(text[from:at] + masked)
		for ; at < end; at++ { // a secret may begin in another, and end after it
			end = max(end, at+lengths[at])
		}
		from = at
	}
	return HideInside(out.String() + text[from:])
}

// Line is [Mask.Text] for a line of output, which may begin with the rest of a secret: servers wrap
// lines wherever they are full. Before is what was printed before it, without line ends.
func (m Mask) Line(before, line string) string {
	longest, printed, wrapped := 0, dense(before), dense(line)
	for _, secret := range m.secrets {
		longest = max(longest, restOf(secret.dense, printed, wrapped))
	}
	if longest == 0 {
		return m.Text(line)
	}
	end := 0
	for longest > 0 {
		r, size := utf8.DecodeRuneInString(line[end:])
		if end += size; !unicode.IsSpace(r) {
			longest -= size
		}
	}
	if lengths := m.lengths(line); lengths != nil {
		end = max(end, lengths[0])
	}
	return masked + m.Text(line[end:])
}

// restOf returns how much of a line is the rest of a secret that began before it.
func restOf(secret, before, line string) (longest int) {
	whole := len(secret)
	if whole > len(before)+len(line) && (len(before) < minInside || !strings.Contains(secret, before)) {
		secret = secret[:len(before)+len(line)] // it began in what was kept, and so goes no further
	}
	ends, rests := prefixes(reversed(before), reversed(secret)), prefixes(line, secret)
	for n := 1; n < len(secret); n++ {
		rest, end := rests[n], ends[len(secret)-n]
		// Where the secret goes on after the line too, a few bytes of it are as likely part of a
		// word.
		isRest := rest > 0 && (n+rest == whole || rest == len(line) && n+rest >= minMasked)
		// Of a long secret, the caller may not have kept all that was printed before.
		isBegun := end == n || end == len(before) && end >= minInside
		if isRest && isBegun {
			longest = max(longest, rest)
		}
	}
	return longest
}

// prefixes returns for each byte of a text how much of a pattern begins there. It takes time in
// proportion to both (the Z algorithm).
func prefixes(pattern, text string) []int {
	all := pattern + text
	lengths := make([]int, len(all)+1)
	for i, begin, end := 1, 0, 0; i < len(all); i++ { // the last known match is from begin to end
		n := 0
		if i < end {
			n = min(end-i, lengths[i-begin])
		}
		for i+n < len(all) && all[n] == all[i+n] {
			n++
		}
		if lengths[i] = n; i+n > end {
			begin, end = i, i+n
		}
	}
	for i := range lengths {
		lengths[i] = min(lengths[i], len(pattern))
	}
	return lengths[len(pattern):]
}

func reversed(text string) string {
	bytes := []byte(text)
	slices.Reverse(bytes)
	return string(bytes)
}

// lengths returns for each byte of a text the length of the longest secret, whole or cut off, that
// begins there; nil if none does.
func (m Mask) lengths(text string) (longest []int) {
	for _, secret := range m.secrets {
		// Each secret has minMasked bytes at least, see add.
		if !strings.Contains(text, secret.text[:minCut]) { // as in nearly all texts
			continue
		}
		if longest == nil {
			longest = make([]int, len(text))
		}
		for at, n := range prefixes(secret.text[:min(len(secret.text), len(text))], text)[:len(text)] {
			rest := text[at+n:]
			isCut := rest == "" || strings.HasPrefix(rest, "…") || strings.HasPrefix(rest, "...")
			if n == len(secret.text) || n >= minCut && isCut {
				longest[at] = max(longest[at], n)
			}
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

// passwordName is how connection strings call what a password follows.
const passwordName = `(?:password|passwd|pwd|passphrase|accountkey|sharedaccesskey|client[ _]?secret)\s*=\s*`

var (
	secretName = hclread.Lazily(`(?i)token|secret|passw|credential|cookie|authorization|api[-_]?key|access[-_]?key|` +
		`private[-_]?key|^key$|pgpass$|(^|[-_])pass$|passphrase|_pat$|dsn$|(database|postgres|mongo(db)?|redis)_?ur[il]$`)
	// queryParameter matches a parameter in a URL, wherever that stands.
	queryParameter = hclread.Lazily(`([?&])([^=?&#\s]+)=([^&#\s]+)`)
	// givenWord matches a flag, a variable or a header in one word of a command line, and what
	// follows it.
	givenWord = hclread.Lazily(`^(-{0,2}([A-Za-z_][A-Za-z0-9_-]*)(?:=|: *))(.+)$`)
	// urlPassword and namedPassword match what a URL and a connection string have of a password,
	// wherever they stand.
	urlPassword   = hclread.Lazily(`://[^\s/?#@:"']*:([^\s/?#"']+)@`)
	namedPassword = hclread.Lazily(`(?i);\s*` + passwordName + `([^;\n"']+)|\b` + passwordName + `([^\s;,&"']+)`)
	// joinedPassword matches a word of a command line such as mysql's -pPASSWORD, and no number,
	// address or longer flag.
	joinedPassword = hclread.Lazily(`^-p([^=]*[^=\d.:/].*)$`)
	longFlag       = hclread.Lazily(`^-(parallel|passthrough|path|pattern|persist|pid|plugin|poll|port|prefix|preset|` +
		`pretty|print|prod|profile|project|protocol|provider|proxy|public|pull|push)`)
	flagWord = hclread.Lazily(`^--?([A-Za-z][A-Za-z0-9_-]*)$`)
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
	if !strings.ContainsAny(text, "@=") {
		return text
	}
	// One pattern after the other: to look for the nearest of both from each secret on takes time in
	// proportion to the square of a text, which may be a server's error of megabytes.
	return hideGroups(namedPassword(), hideGroups(urlPassword(), text))
}

// hideGroups masks what the one group of each match is that has something.
func hideGroups(pattern *regexp.Regexp, text string) string {
	var out strings.Builder
	for {
		at := pattern.FindStringSubmatchIndex(text)
		if at == nil {
			return out.String() + text
		}
		group := 2
		for at[group] < 0 {
			group += 2
		}
		out.WriteString(text[:at[group]] + masked)
		text = text[at[group+1]:]
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

package config

import (
	"slices"
	"strconv"
	"strings"
)

// How long what a [Mask] hides must be, in bytes: shorter texts are parts of ordinary words.
const (
	minMasked = 8 // a secret
	minCut    = 4 // what is left of one that was cut off
)

// Mask hides the secrets of one upstream in text that its server had a part in: a server may repeat what it was sent, as the
// name of a member that an error quotes, for example.
//
// It finds secrets as they are, as a string of JSON spells them, and cut off at the end of a text or before an ellipsis, besides
// those of others that [SecretIn] finds. It does not find those that a server has encoded.
type Mask struct{ secrets []string }

// Mask returns the mask for the upstream's headers, environment, client credentials and sensitive addresses.
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

// Line is [Mask.Text] for a line of output, which may begin with the rest of a secret: servers wrap lines wherever they are full.
// Before is what was printed before it, without line ends.
func (m Mask) Line(before, line string) string {
	longest := 0
	for _, secret := range m.secrets {
		for n := min(len(secret)-1, len(before)); n > 0; n-- {
			rest := secret[n:]
			// Where the secret goes on after the line too, a few bytes of it are as likely part of a word.
			isRest := strings.HasPrefix(line, rest) || n+len(line) >= minMasked &&
				strings.HasPrefix(rest, line)
			if isRest && strings.HasSuffix(before, secret[:n]) {
				longest = max(longest, min(len(rest), len(line)))
			}
		}
	}
	if longest == 0 {
		return m.Text(line)
	}
	return masked + m.Text(line[longest:])
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

// Error returns an error whose text has masks, and which is otherwise what it was to [errors.Is] and [errors.As].
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

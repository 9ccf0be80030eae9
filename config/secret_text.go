package config

import (
	"slices"
	"strconv"
	"strings"

	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

var (
	// authScheme matches the scheme of an Authorization header.
	authScheme = hclread.Lazily(`^(?i:(bearer|basic|token|apikey|api-key) +)`)
	// secretText matches secrets within a text that have the form of a well-known service.
	secretText = hclread.Lazily(`\b(sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|` +
		`xox[abposr]-[\w-]{10,}|T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,}|AKIA[A-Z0-9]{16}|` +
		`eyJ[\w-]+\.[\w-]+\.[\w-]*|AIza[\w-]{30,}|ntn_\w{16,}|secret_\w{16,})`)
	// bearerText matches a credential with its scheme within a text.
	bearerText = hclread.Lazily(`\b(?:[Bb]earer +([\w.~+/=-]{6,})|Basic +([A-Za-z0-9+/]{8,}=*))`)
	// namedText matches a name with its value in JSON, in the query of a URL, or in a shell command: a variable,
	// a flag or a header.
	namedText = hclread.Lazily(`"([\w-]+)"\s*:\s*"((?:[^"\\]|\\.)+)"|(?:^|[\s;?&'"])-{0,2}([A-Za-z_][\w-]*)=["']?([^\s&#;'"]+)` +
		`|(?:^|\s)--?([A-Za-z][\w-]*)\s+["']?([^\s'"-][^\s'"]*)|["']([A-Za-z][\w-]*): *([^\s'"]+)["']`)
	// longRun matches a run of characters that is longer than most words.
	longRun     = hclread.Lazily(`[\w+=-]{20,}`)
	hexadecimal = hclread.Lazily(`^[0-9a-f]+$`)
	// shellReference matches a value that a shell replaces.
	shellReference = hclread.Lazily(`^\$[A-Za-z_({]`)
)

// AuthScheme returns the scheme of an Authorization header with its blank, such as "Bearer ".
func AuthScheme(value string) string { return authScheme().FindString(value) }

// HideSecrets masks the secrets in a text that [SecretIn] finds or that have the form of a well-known service.
func HideSecrets(text string) string { return secretText().ReplaceAllString(HideInside(text), "…") }

// IsSecretFlag is [IsSecretName] with more names of flags and URL parameters: tokens of GitLab and other
// services, signatures of Azure, and short flags of common servers.
func IsSecretFlag(name string) bool {
	return IsSecretName(strings.TrimLeft(name, "-")) || slices.Contains([]string{"--pat", "--auth", "-t", "-k", "-u", "sig", "code"}, name)
}

// FindSecret returns the bounds and a name of the first secret in a text. The end is 0 if there is
// no secret.
func FindSecret(text string) (begin, end int, name string) {
	first := func(from, to int, called string) {
		// The earliest secret wins: the caller searches the text after it again.
		if end == 0 || from < begin {
			begin, end, name = from, to, called
		}
	}
	if at := secretText().FindStringIndex(text); at != nil {
		first(at[0], at[1], "secret")
	}
	if from, to, found := SecretIn(text); found {
		first(from, to, "password")
	}
	if at := bearerText().FindStringSubmatchIndex(text); at != nil {
		from, to := firstGroup(at)
		first(from, to, "token")
	}
	for _, at := range longRun().FindAllStringIndex(text, -1) {
		if IsRandom(text[at[0]:at[1]]) && !strings.HasSuffix(text[:at[0]], "sha256:") { // the digest of an image is not a secret
			first(at[0], at[1], "secret")
		}
	}
	if from, to, called := findNamed(text); to > 0 {
		first(from, to, called)
	}
	return begin, end, name
}

// findNamed is [FindSecret] for values whose names tell that they are secrets.
func findNamed(text string) (begin, end int, name string) {
	for from := 0; ; {
		at := namedText().FindStringSubmatchIndex(text[from:])
		if at == nil {
			return 0, 0, ""
		}
		group := 2
		for at[group] < 0 {
			group += 4
		}
		begin, end, name = from+at[group+2], from+at[group+3], text[from+at[group]:from+at[group+1]]
		value := text[begin:end]
		if IsSecretFlag(name) && !shellReference().MatchString(value) && AuthScheme(value+" ") == "" {
			return begin, end, name
		}
		from += at[group+1] // continue after the name: the value of a flag may be the name of a header
	}
}

// IsRandom reports whether a text has digits, and also letters of both cases or only hexadecimal
// letters in lower case.
func IsRandom(text string) bool {
	isMixed := strings.ToLower(text) != text && strings.ToUpper(text) != text
	isHexadecimal := hexadecimal().MatchString(text) && strings.ContainsAny(text, "abcdef")
	return strings.ContainsAny(text, "0123456789") && (isMixed || isHexadecimal)
}

// warnOfSecrets warns of secrets that are written out in the given attributes, judging by names and forms.
func warnOfSecrets(b *hclread.Block, attributes ...string) {
	for _, name := range attributes {
		keys, texts := b.Literals(name)
		hidden := hideWords(exslices.CastFunc(texts, func(t hclread.Text) string { return t.Value }))
		for i, t := range texts {
			isWord := name == "command" && hidden[i] != t.Value
			if isSetting(t.Value) || !isWord && !isWrittenSecret(keys[i], t.Value) {
				continue
			}
			what := name
			if keys[i] != name && keys[i] != "" {
				what += ", " + keys[i]
			}
			b.WarnHidden(t.At, "Secret in the file", "Everybody who can read this file can read a secret here (%s). Replace the secret, put the new one "+
				"into the gateway's environment, and write env(\"NAME\"), or \"${env(\"NAME\")}\" within a text.", what)
		}
	}
}

// isWrittenSecret reports whether a value is or contains a secret.
func isWrittenSecret(name, value string) bool {
	value = hclread.ForeignReference().ReplaceAllString(value, " ") // a warning of its own
	_, end, _ := FindSecret(value)
	rest := value[len(AuthScheme(value)):]
	return end > 0 || hideParameters(value) != value || IsSecretName(name) && strings.TrimSpace(rest) != "" && !strings.Contains(rest, "://") && !shellReference().MatchString(rest)
}

// isSetting reports whether a value is not a secret even if its name suggests that: a number, true, false or a path.
// The value may follow NAME=.
func isSetting(value string) bool {
	_, after, hasName := strings.Cut(value, "=")
	if !hasName {
		after = value
	}
	_, err := strconv.ParseFloat(after, 64)
	return err == nil || slices.Contains([]string{"", "true", "false"}, after) || strings.HasPrefix(after, "/") || strings.HasPrefix(after, ".")
}

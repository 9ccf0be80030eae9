package config

import (
	"regexp"
	"strings"
	"sync"
)

var (
	secretName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)token|secret|passw|credential|cookie|authorization|api[-_]?key|access[-_]?key|private[-_]?key|^key$|_pat$|dsn$|(database|postgres|mongo(db)?|redis)_?ur[il]$`)
	})
	// queryParameter matches a parameter in a URL, wherever that stands.
	queryParameter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([?&])([^=?&#\s]+)=([^&#\s]+)`) })
	// givenWord matches a flag, a variable or a header in one word of a command line, and what follows it.
	givenWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(-{0,2}([A-Za-z_][A-Za-z0-9_-]*)(?:=|: *))(.+)$`) })
	flagWord  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^--?([A-Za-z][A-Za-z0-9_-]*)$`) })
)

// IsSecretName reports whether the value of a variable, a header, a flag or a parameter of this name is a secret, as far as a name can
// tell.
func IsSecretName(name string) bool { return secretName().MatchString(name) }

// hideParameters masks the parameters in the URLs of a text whose names are those of secrets.
func hideParameters(text string) string {
	if !strings.Contains(text, "=") {
		return text
	}
	return queryParameter().ReplaceAllStringFunc(text, func(parameter string) string {
		parts := queryParameter().FindStringSubmatch(parameter)
		if !IsSecretName(parts[2]) {
			return parameter
		}
		return parts[1] + parts[2] + "=" + masked
	})
}

// hideWords masks what a command line has of secrets, as far as the names of flags, variables, headers and parameters tell.
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
		default:
			hidden[i] = hideParameters(word)
		}
		follows = flag != nil && IsSecretName(flag[1])
	}
	return hidden
}

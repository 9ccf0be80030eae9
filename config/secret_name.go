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
	// urlPassword and namedPassword match what a URL and a connection string have of a password, wherever they stand.
	urlPassword   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`://[^\s/?#@:"']*:([^\s/?#"']+)@`) })
	namedPassword = sync.OnceValue(func() *regexp.Regexp {
		const names = `(?:password|passwd|pwd|passphrase|accountkey|sharedaccesskey|client[ _]?secret)\s*=\s*`
		return regexp.MustCompile(`(?i);\s*` + names + `([^;\n"']+)|\b` + names + `([^\s;,&"']+)`)
	})
	// joinedPassword matches a word of a command line such as mysql's -pPASSWORD, and no number, address or longer flag.
	joinedPassword = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-p([^=]*[^=\d.:/].*)$`) })
	longFlag       = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^-(parallel|passthrough|path|pattern|persist|pid|plugin|poll|port|prefix|preset|pretty|print|prod|profile|project|protocol|provider|proxy|public|pull|push)`)
	})
	flagWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^--?([A-Za-z][A-Za-z0-9_-]*)$`) })
)

// IsSecretName reports whether the value of a variable, a header, a flag or a parameter of this name is a secret, as far as a name can
// tell.
func IsSecretName(name string) bool { return secretName().MatchString(name) }

// SecretIn returns where the first secret inside a text begins and ends that what is around it tells: in ://user:PASSWORD@ or
// ;Password=PASSWORD, for example.
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

// JoinedPassword returns the password in a word of a command line such as -pPASSWORD; empty if there is none.
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

// hideParameters masks the secrets inside a text, and the parameters in its URLs whose names are those of secrets.
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
		case JoinedPassword(word) != "":
			hidden[i] = "-p" + masked
		default:
			hidden[i] = hideParameters(word)
		}
		follows = flag != nil && IsSecretName(flag[1])
	}
	return hidden
}

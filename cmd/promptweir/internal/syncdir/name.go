package syncdir

import (
	"regexp"
	"strings"
)

// maxName bounds the name of a file without its extension, in bytes: Gemini CLI cuts longer ones off.
const maxName = 50

var (
	plainName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$`)
	hashed    = regexp.MustCompile(`-[0-9a-f]{8}$|\.prompt$`)
	// reserved are the names of devices, which Windows has in every folder and with any extension.
	reserved = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
	noName   = regexp.MustCompile(`[^a-z0-9_.-]`)
)

// fileName returns the name of a prompt's file, without an extension. It depends on the prompt's name
// alone, so that no other prompt renames the file. A name that some system could not tell from
// another, or not have, gets a part of its hash.
func fileName(prompt string) string {
	// A name that ends like a hash gets one too, or it could be that of another prompt's file.
	if len(prompt) <= maxName && plainName.MatchString(prompt) &&
		!hashed.MatchString(prompt) && !reserved.MatchString(prompt) {
		return prompt
	}
	hash := "-" + Short(prompt)
	name := noName.ReplaceAllString(strings.ToLower(prompt), "_")
	// By now it is ASCII, so that no character is torn. A dot in front would hide the file, and
	// Windows drops one at the end.
	name = strings.Trim(name[:min(len(name), maxName-len(hash)-1)], ".-")
	if name == "" || reserved.MatchString(name) {
		name = "_" + name
	}
	return name + hash
}

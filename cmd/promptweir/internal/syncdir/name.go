package syncdir

import (
	"regexp"
	"strings"
)

// maxName bounds the name of a file without its extension, in bytes. Gemini CLI truncates longer names.
const maxName = 50

var (
	plainName = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$`)
	hashed    = regexp.MustCompile(`-[0-9a-f]{8}$|\.prompt$`)
	// reserved matches the names of Windows devices, which exist in every folder and with any extension.
	reserved = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
	noName   = regexp.MustCompile(`[^a-z0-9_.-]`)
)

// fileName returns the name of a prompt's file without extension. It depends only on the prompt's name, so
// other prompts never rename the file. If some file system cannot store the name, or may confuse it with
// another name, fileName appends a part of the name's hash.
func fileName(prompt string) string {
	// A name that ends like a hash also gets a hash: otherwise it could be the file name of another prompt.
	if len(prompt) <= maxName && plainName.MatchString(prompt) &&
		!hashed.MatchString(prompt) && !reserved.MatchString(prompt) {
		return prompt
	}
	hash := "-" + Short(prompt)
	name := noName.ReplaceAllString(strings.ToLower(prompt), "_")
	// The name is ASCII here, so the cut does not split a character. A leading dot would hide the file, and
	// Windows drops a trailing dot.
	name = strings.Trim(name[:min(len(name), maxName-len(hash)-1)], ".-")
	if name == "" || reserved.MatchString(name) {
		name = "_" + name
	}
	return name + hash
}

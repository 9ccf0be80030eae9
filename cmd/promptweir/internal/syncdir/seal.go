package syncdir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// sealLine begins the line whose hash is that of the file without the line, and of its path. No name
// in the header has a line break, so that none can pass for it.
const sealLine = "\n# sha256 of the rest: "

var (
	sourceLine = regexp.MustCompile(`(?m)^# written by promptweir from (\S+);`)
	takenAt    = regexp.MustCompile(`(?m)^(# prompt .*), a snapshot of \S+Z$`)
)

// Short returns a part of a text's hash.
func Short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// header returns the comment with which a file begins: its source, its prompt, and that promptweir
// wrote it.
func header(p *Prompt, source string) string {
	taken := ""
	if !p.Taken.IsZero() {
		taken = ", a snapshot of " + p.Taken.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("# written by promptweir from %s; once edited, it is kept as it is\n"+
		"# prompt %s, definition sha256:%x%s"+sealLine+"\n",
		source, quote(wire.Clip(p.Name, maxQuoted)), p.Definition, taken)
}

// quote writes a text as a string that YAML, TOML and the simple readers of front matter have in
// common.
func quote(text string) string {
	// Three hyphens would end front matter for some of them.
	text = wire.Printable(strings.Join(strings.Fields(text), " "))
	return strings.ReplaceAll(string(wire.Quote(text)), "--", `-\u002d`)
}

// seal puts the seal in the place of its empty line.
func seal(path, content string) []byte {
	before, after, _ := strings.Cut(content, sealLine+"\n")
	return []byte(before + sealLine + hash(path, before+after) + "\n" + after)
}

// hash has the path in it: a copy of the file is somebody's own.
func hash(path, rest string) string {
	sum := sha256.Sum256([]byte(path + "\n" + rest))
	return hex.EncodeToString(sum[:])
}

// origin returns the source from which promptweir wrote a file, empty for any other file, and whether
// the file is as it was written.
func origin(path string, content []byte) (source string, intact bool) {
	found := sourceLine.FindSubmatch(content[:min(len(content), maxHeader)])
	if found == nil {
		return "", false
	}
	before, rest, _ := bytes.Cut(content, []byte(sealLine))
	sum, after, _ := bytes.Cut(rest, []byte("\n"))
	return string(found[1]), string(sum) == hash(path, string(before)+string(after))
}

// maxQuoted bounds the prompt's name in a header, in bytes.
const maxQuoted = 200

// maxHeader bounds where in a file its header is, in bytes.
const maxHeader = 4 << 10

// same reports whether two files differ at most in when their snapshot was taken.
func same(a, b []byte) bool {
	bare := func(content []byte) []byte {
		head, tail := content[:min(len(content), maxHeader)], content[min(len(content), maxHeader):]
		head = takenAt.ReplaceAll(head, []byte("$1"))
		before, rest, _ := bytes.Cut(head, []byte(sealLine))
		_, after, _ := bytes.Cut(rest, []byte("\n"))
		return bytes.Join([][]byte{before, after, tail}, nil)
	}
	return bytes.Equal(bare(a), bare(b))
}

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

// sealLine begins the line with the seal: a hash of the file's path, and of its content without this line.
// Names in the header have no line breaks, so they cannot imitate this line.
const sealLine = "\n# sha256 of the rest: "

var (
	sourceLine = regexp.MustCompile(`(?m)^# written by promptweir from (\S+);`)
	takenAt    = regexp.MustCompile(`(?m)^(# prompt .*), a snapshot of \S+Z$`)
)

// Short returns the first 8 hexadecimal digits of a text's SHA-256.
func Short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// header returns the comment at the top of a file, which names promptweir, the source and the prompt. It ends
// with the line of the seal, still without the hash.
func header(p *Prompt, source string) string {
	taken := ""
	if !p.Taken.IsZero() {
		taken = ", a snapshot of " + p.Taken.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("# written by promptweir from %s; once edited, it is kept as it is\n"+
		"# prompt %s, definition sha256:%x%s"+sealLine+"\n",
		source, quote(wire.Clip(p.Name, maxQuoted)), p.Definition, taken)
}

// quote returns a string in quotes for YAML, TOML and simple readers of front matter.
func quote(text string) string {
	// Escape hyphens: some readers end the front matter at three hyphens anywhere.
	text = wire.Printable(strings.Join(strings.Fields(text), " "))
	return strings.ReplaceAll(string(wire.Quote(text)), "--", `-\u002d`)
}

// seal returns the content of a file, with the hash in the line of the seal.
func seal(path, content string) []byte {
	before, after, _ := strings.Cut(content, sealLine+"\n")
	return []byte(before + sealLine + hash(path, before+after) + "\n" + after)
}

// hash returns the seal of a file. The seal depends on the path, so a copy that people make under another path
// has no valid seal and is left alone.
func hash(path, rest string) string {
	sum := sha256.Sum256([]byte(path + "\n" + rest))
	return hex.EncodeToString(sum[:])
}

// origin returns the source of a file that promptweir wrote, or "" for other files. intact reports whether the
// seal is valid.
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

// maxHeader bounds the beginning of a file that is searched for the header, in bytes.
const maxHeader = 4 << 10

// same reports whether two files are equal, apart from the time of their snapshot and the seal.
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

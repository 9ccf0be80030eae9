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

// sealLine begins the line with a hash of the file without this line, and of its path. Names in the header have
// no line breaks, so they cannot imitate it.
const sealLine = "\n# sha256 of the rest: "

var (
	sourceLine = regexp.MustCompile(`(?m)^# written by promptweir from (\S+);`)
	takenAt    = regexp.MustCompile(`(?m)^(# prompt .*), a snapshot of \S+Z$`)
)

// Short returns the beginning of a text's hash.
func Short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// header returns the first comment of a file: its source, its prompt, and that promptweir wrote it.
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
	// Some readers end front matter at three hyphens anywhere.
	text = wire.Printable(strings.Join(strings.Fields(text), " "))
	return strings.ReplaceAll(string(wire.Quote(text)), "--", `-\u002d`)
}

// seal fills in the seal's line.
func seal(path, content string) []byte {
	before, after, _ := strings.Cut(content, sealLine+"\n")
	return []byte(before + sealLine + hash(path, before+after) + "\n" + after)
}

// The path is part of the hash: if people copy the file, the copy is theirs.
func hash(path, rest string) string {
	sum := sha256.Sum256([]byte(path + "\n" + rest))
	return hex.EncodeToString(sum[:])
}

// origin returns the source of a file that promptweir wrote, or "", and whether the file is unchanged.
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

// maxHeader bounds the part of a file in which its header is searched, in bytes.
const maxHeader = 4 << 10

// same reports whether two files differ at most in the time of their snapshot.
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

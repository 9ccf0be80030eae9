package skills

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// URI returns the URI under which the upstream serves a file.
func (s *Skill) URI(file File) string { return s.Root + "/" + file.Path }

// Verify returns the content in the result of reading a file. The error says in which way it differs
// from the file in the skill's entry.
func (s *Skill) Verify(result jsontext.Value, file File) (wire.Object, error) {
	contents, err := wire.ParseArray(wire.Members(result).Get("contents"))
	if err != nil || len(contents) != 1 {
		return nil, errors.New("the result does not have exactly one content")
	}
	content := wire.Members(contents[0])
	if got, _ := content.Text("uri"); got != s.URI(file) {
		return nil, errors.New("the content has a different uri")
	}
	text, isText := content.Text("text")
	bytes := []byte(text)
	if blob, isBlob := content.Text("blob"); isBlob == isText {
		return nil, errors.New("the content must have either a text or a blob")
	} else if isBlob {
		if bytes, err = base64.StdEncoding.DecodeString(blob); err != nil {
			return nil, errors.New("the blob is not base64")
		}
	}
	switch {
	case file.Digest == "": // a dynamic skill: size and digest are unknown
	case int64(len(bytes)) != file.Size:
		return nil, fmt.Errorf("it has %d bytes, not %d", len(bytes), file.Size)
	case fmt.Sprintf("sha256:%x", sha256.Sum256(bytes)) != file.Digest:
		return nil, fmt.Errorf("its digest is not %s", file.Digest)
	}
	// A SKILL.md in a subfolder is an ordinary file: its front matter is not in the entry.
	if file.Path == wire.SkillFile {
		if err := s.checkFrontMatter(string(bytes)); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// checkFrontMatter returns an error if the front matter of a SKILL.md differs from the entry: only the
// entry was screened and shown to operators.
func (s *Skill) checkFrontMatter(text string) error {
	front, err := files.FrontMatter(text)
	if err != nil {
		return err
	}
	listed := s.Frontmatter.JSON()
	if err := errors.Join(front.Canonicalize(), listed.Canonicalize()); err != nil {
		return err
	}
	if !slices.Equal(front, listed) {
		return errors.New("its front matter differs from the entry")
	}
	return nil
}

package main

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config/safefile"
)

// folderMode and fileMode allow only the owner, because a prompt may be private.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// saver writes the images, sounds and other files of messages into a folder. A nil saver writes nothing.
type saver struct {
	folder string
	// name is the prefix of the files' names.
	name  string
	count int
}

// newSaver returns a saver for the messages of a prompt. For the folder "", it returns nil, which saves
// nothing.
func newSaver(folder, prompt string) *saver {
	if folder == "" {
		return nil
	}
	// A prompt's name may have characters that file systems refuse.
	name := regexp.MustCompile(`[^a-zA-Z0-9.-]`).ReplaceAllString(prompt, "_")
	return &saver{folder: folder, name: strings.TrimLeft(name[:min(len(name), maxFileName)], ".")}
}

// maxFileName bounds the prompt's name at the start of a file name, in bytes.
const maxFileName = 100

// save writes the content of a message if it is a file, and returns the file's path. For text and for a nil
// saver, it returns "".
func (s *saver) save(raw json.RawMessage) (path string, err error) {
	if s == nil {
		return "", nil
	}
	var content struct {
		Type, Data, MimeType string
		Resource             struct{ Blob, MimeType string }
	}
	if json.Unmarshal(raw, &content) != nil {
		return "", nil //nolint:nilerr // printMessages prints such content unchanged
	}
	data, mime := content.Data, content.MimeType
	if content.Type == "resource" {
		data, mime = content.Resource.Blob, content.Resource.MimeType
	}
	if data == "" {
		return "", nil
	}
	decoded, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", fmt.Errorf("content of type %s: %w", terminal.OneLine(content.Type), err)
	}
	if err := os.MkdirAll(s.folder, folderMode); err != nil {
		return "", err
	}
	// Number the files within the result, so that the same get has the same file names.
	s.count++
	path = filepath.Join(s.folder, fmt.Sprintf("%s-%d%s", s.name, s.count, extension(mime)))
	err = safefile.WriteNew(path, decoded, fileMode, os.OpenFile)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s already exists and is kept; remove it, or name another folder", path)
	}
	return path, err
}

// extensions maps MIME types to file extensions. It replaces package mime, whose tables differ between
// systems.
//
//nolint:gochecknoglobals // a constant table
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
	"image/svg+xml": ".svg", "audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/x-wav": ".wav",
	"audio/wave": ".wav", "audio/ogg": ".ogg", "audio/flac": ".flac", "application/pdf": ".pdf",
}

// extension returns the file extension for a MIME type, or .bin for an unknown type.
func extension(mime string) string {
	kind, _, _ := strings.Cut(strings.ToLower(mime), ";")
	return cmp.Or(extensions[strings.TrimSpace(kind)], ".bin")
}

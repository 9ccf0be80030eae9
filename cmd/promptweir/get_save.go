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
	"strings"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config/regular"
)

// folderMode and fileMode are for what --save writes, which may be as private as the prompt.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// saver writes the images, sounds and other files of messages into a folder. The nil one writes
// nothing.
type saver struct {
	folder string
	// name begins the names of the files.
	name  string
	count int
}

// newSaver returns a saver for the messages of a prompt; nil if the folder is empty.
func newSaver(folder, prompt string) *saver {
	if folder == "" {
		return nil
	}
	// Names of prompts may have any characters, some of which no file has everywhere.
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' ||
			r == '-' {
			return r
		}
		return '_'
	}, prompt)
	return &saver{folder: folder, name: strings.TrimLeft(name[:min(len(name), maxFileName)], ".")}
}

// maxFileName bounds the part of a file's name that is the prompt's, in bytes.
const maxFileName = 100

// save writes the content of a message, if it is a file, and returns its path; else it returns an
// empty path.
func (s *saver) save(raw json.RawMessage) (path string, err error) {
	if s == nil {
		return "", nil
	}
	var content struct {
		Type, Data, MimeType string
		Resource             struct{ Blob, MimeType string }
	}
	if json.Unmarshal(raw, &content) != nil {
		return "", nil //nolint:nilerr // it is printed as it is
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
	// The number in the result and not in the folder, so that the same get gives the same names.
	s.count++
	path = filepath.Join(s.folder, fmt.Sprintf("%s-%d%s", s.name, s.count, extension(mime)))
	err = regular.WriteNew(path, decoded, fileMode, os.OpenFile)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s already exists and is kept; remove it, or name another folder", path)
	}
	return path, err
}

// extensions are the ends of files' names by MIME type. It is a table, because that of the system
// differs from one to the next.
//
//nolint:gochecknoglobals // a constant table
var extensions = map[string]string{
	"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
	"image/svg+xml": ".svg", "audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/x-wav": ".wav",
	"audio/wave": ".wav", "audio/ogg": ".ogg", "audio/flac": ".flac", "application/pdf": ".pdf",
}

// extension returns the end of a file's name for a MIME type.
func extension(mime string) string {
	kind, _, _ := strings.Cut(strings.ToLower(mime), ";")
	return cmp.Or(extensions[strings.TrimSpace(kind)], ".bin")
}

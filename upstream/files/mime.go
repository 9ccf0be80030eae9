package files

import (
	"path"
	"strings"
)

// textTypes are the MIME types of texts that skills have beside their SKILL.md.
var textTypes = map[string]string{ //nolint:gochecknoglobals // a constant table
	".md": "text/markdown", ".txt": "text/plain", ".csv": "text/csv", ".json": "application/json",
	".yaml": "application/yaml", ".yml": "application/yaml", ".html": "text/html", ".xml": "application/xml",
}

// MimeType returns the MIME type of a file by its name; empty for an unknown one.
func MimeType(name string) string {
	if m, ok := mediaOf(name); ok {
		return m.mime
	}
	return textTypes[strings.ToLower(path.Ext(name))]
}

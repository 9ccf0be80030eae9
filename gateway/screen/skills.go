package screen

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path"
	"slices"

	"github.com/promptweir/promptweir/upstream/wire"
)

// textFiles are the extensions that skills = "text" allows. SVG is missing because it can contain
// scripts.
var textFiles = map[string]bool{ //nolint:gochecknoglobals // a constant set
	".md": true, ".markdown": true, ".txt": true, ".json": true, ".yaml": true, ".yml": true, ".csv": true,
	".png": true, ".jpg": true, ".jpeg": true, ".gif": true, ".webp": true,
}

// programs are the first bytes of scripts and programs: a shebang, ELF, PE, Mach-O and WebAssembly.
var programs = []string{ //nolint:gochecknoglobals // a constant list
	"#!", "\x7fELF", "MZ", "\xfe\xed\xfa\xce", "\xfe\xed\xfa\xcf", "\xce\xfa\xed\xfe", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "\x00asm",
}

// checkSkill applies skills = "text". It rejects programs in the contents of files and, in an
// entry, allowed-tools, hooks and files that are neither texts nor images.
func (p *pass) checkSkill(b block) {
	if !b.Skills {
		return
	}
	value := wire.Members(p.raw)
	contents, _ := wire.ParseArray(value.Get("contents")) // nil for an entry
	for i, content := range contents {
		if isProgram(wire.Members(content)) {
			p.reject(b, "skills", fmt.Sprintf("/contents/%d", i))
		}
	}
	if value.Get("name") != nil || value.Get("frontmatter") == nil { // a prompt's definition
		return
	}
	p.checkFrontmatter(b, value.Object("frontmatter"))
	files, err := wire.ParseArray(value.Get("resources"))
	if err != nil { // a dynamic skill does not list its files
		p.reject(b, "skills", "/resources")
	}
	for i, file := range files {
		uri, _ := wire.Members(file).Text("uri")
		name, err := wire.FoldPath(path.Base(uri))
		if err != nil || !textFiles[path.Ext(name)] {
			p.reject(b, "skills", fmt.Sprintf("/resources/%d/uri", i))
		}
	}
}

func (p *pass) checkFrontmatter(b block, front wire.Object) {
	for _, member := range front {
		if b.Skills && (member.Name == "allowed-tools" || member.Name == "hooks") {
			p.reject(b, "skills", "/frontmatter/"+member.Name)
		}
	}
}

func isProgram(content wire.Object) bool {
	text, _ := content.Text("text")
	start := []byte(text[:min(len(text), 16)])
	if blob, ok := content.Text("blob"); ok {
		start, _ = base64.StdEncoding.DecodeString(blob[:min(len(blob), 16)]) // Skill.Verify has refused invalid base64
	}
	return slices.ContainsFunc(programs, func(magic string) bool { return bytes.HasPrefix(start, []byte(magic)) })
}

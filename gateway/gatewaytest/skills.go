package gatewaytest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// SkillPeer is a [Peer] with skills, which it serves beside its prompts.
type SkillPeer struct {
	*Peer

	// Files are the texts by URI; each that ends in /SKILL.md makes its folder a skill.
	Files map[string]string
	// Entries replace those that follow from Files; by URI.
	Entries map[string]string
}

// NewSkillPeer starts a peer with skills in files, by URI. A text without front matter gets one.
func NewSkillPeer(tb testing.TB, name string, files map[string]string) *SkillPeer {
	tb.Helper()
	p := &SkillPeer{Peer: NewPeer(tb, name, "p"), Files: map[string]string{}, Entries: map[string]string{}}
	p.Declare(`{"prompts":{"listChanged":true},"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`)
	p.Settings = "skills = true"
	for uri, text := range files {
		if root, ok := strings.CutSuffix(uri, "/SKILL.md"); ok && !strings.HasPrefix(text, "---") {
			text = fmt.Sprintf("---\nname: %s\ndescription: %s\n---\n%s", root[strings.LastIndexByte(root, '/')+1:], "D", text)
		}
		p.Files[uri] = text
	}
	p.Intercept(func(w http.ResponseWriter, _ *http.Request, call Call) bool {
		switch call.Method {
		case "skills/list":
			p.Respond(w, call, p.list())
		case "resources/read":
			p.Respond(w, call, p.read(call))
		default:
			return false
		}
		return true
	})
	return p
}

// Entry returns the entry of the skill whose SKILL.md has a URI.
func (p *SkillPeer) Entry(uri string) string {
	if entry := p.Entries[uri]; entry != "" {
		return entry
	}
	root := strings.TrimSuffix(uri, "SKILL.md")
	var files []string
	for file, text := range p.Files {
		if strings.HasPrefix(file, root) {
			files = append(files, fmt.Sprintf(`{"uri":%q,"digest":"sha256:%x","size":%d}`, file, sha256.Sum256([]byte(text)), len(text)))
		}
	}
	slices.Sort(files)
	segments := strings.Split(root, "/")
	return fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":%q,"description":"D"},"resources":[%s]}`,
		uri, segments[len(segments)-2], strings.Join(files, ","))
}

func (p *SkillPeer) list() string {
	var entries []string
	for uri := range p.Files {
		if strings.HasSuffix(uri, "/SKILL.md") {
			entries = append(entries, p.Entry(uri))
		}
	}
	slices.Sort(entries)
	return `{"skills":[` + strings.Join(entries, ",") + `]}`
}

func (p *SkillPeer) read(call Call) string {
	var params struct{ URI string }
	_ = json.Unmarshal(call.Params, &params) // then there is no such file
	text, ok := p.Files[params.URI]
	if !ok {
		return `error:{"code":-32002,"message":"Resource not found"}`
	}
	quoted, _ := json.Marshal(text) // a string
	return fmt.Sprintf(`{"contents":[{"uri":%q,"mimeType":"text/markdown","text":%s}]}`, params.URI, quoted)
}

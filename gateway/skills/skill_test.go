package skills

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

// A manifest of a hundred thousand entries is refused before they are split.
func TestParse_RefusesAHugeManifestCheaply(t *testing.T) {
	raw := []byte(`{"uri":"skill://x/SKILL.md","frontmatter":{"name":"x","description":"D"},"resources":[` + strings.Repeat("{},", 99_999) + `{}]}`)
	var err error
	allocations := testing.AllocsPerRun(3, func() { _, err = Parse(raw) })
	if err == nil || !strings.Contains(err.Error(), "has more than 512 files") {
		t.Error(err)
	}
	if allocations > 100 {
		t.Errorf("%f allocations", allocations)
	}
}

func TestParse_IsStrict(t *testing.T) {
	const md, dynamic, digest = "skill://x/SKILL.md", `"dynamic"`, "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	described := func(uri, digest, size string) string {
		return fmt.Sprintf(`{"uri":%q,"digest":%q,"size":%s}`, uri, digest, size)
	}
	files := func(all ...string) string { return "[" + strings.Join(all, ",") + "]" }
	sized := func(size string) string { return files(described(md, digest, size)) }
	under := func(folder string) string { return folder + "/x/SKILL.md" }
	const noURI, noSegment, noDigest, noSize = "uri must be a URI", "is not the name of a file or a folder", "digest must be", "size must be"
	for _, test := range []struct{ uri, resources, problem string }{
		{md, dynamic, ""},
		{"git+z9.a-0://x/SKILL.md", dynamic, ""},
		{"://x/SKILL.md", dynamic, noURI},
		{"Git://x/SKILL.md", dynamic, noURI},
		{"g_t://x/SKILL.md", dynamic, noURI},
		{under("skill://" + strings.Repeat("a", maxURI-len(under("skill://")))), dynamic, ""},
		{under("skill://" + strings.Repeat("a", maxURI-len(under("skill://"))+1)), dynamic, noURI},
		{under("skill://%C3%A9/a b"), dynamic, ""},
		{under("skill://a/"), dynamic, noSegment},
		{under("skill://%zz"), dynamic, noSegment},
		{under("skill://a/%2E"), dynamic, noSegment},
		{under("skill://a/.%2e"), dynamic, noSegment},
		{under("skill://a%2fb"), dynamic, noSegment},
		{under("skill://a?b"), dynamic, noSegment},
		{under("skill://%252e%252e"), dynamic, noSegment},
		{md, files(described(md, digest, "1"), described("skill://x/%53KILL.md", digest, "1")), "twice"},
		{md, files(described(md, digest, "1"), described("skill://x/skill.md", digest, "1")), "twice"},
		{md, files(described(md, digest, "1"), described("skill://x/.mcp.json", digest, "1")), noSegment},
		{md, "7", "must be an array"},
		{md, sized("0"), ""},
		{md, sized("16777216"), ""},
		{md, sized("16777217"), noSize},
		{md, sized("-1"), noSize},
		{md, sized(`"1"`), noSize},
		{md, files(described(md, digest, "16777215"), described("skill://x/a", digest, "1")), ""},
		{md, files(described(md, digest, "16777215"), described("skill://x/a", digest, "2")), "has more than 16777216 bytes of files"},
		{md, files(described(md, digest, "1"), described("skill://x/"+strings.Repeat("a", maxURI-len("skill://x/")), digest, "1")), ""},
		{md, files(described(md, digest, "1"), described("skill://x/"+strings.Repeat("a", maxURI-len("skill://x/")+1), digest, "1")), "is not in the folder"},
		{md, files(described(md, digest[:len(digest)-2], "1")), noDigest},
		{md, files(described(md, digest+"zz", "1")), noDigest},
		{md, files(described(md, strings.ToUpper(digest), "1")), noDigest},
		{md, files(described(md, strings.TrimPrefix(digest, "sha256:"), "1")), noDigest},
	} {
		raw := fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":%q,"description":"D"},"resources":%s}`, test.uri, path.Base(path.Dir(test.uri)), test.resources)
		s, err := Parse([]byte(raw))
		if fits := test.problem == ""; fits != (err == nil) || fits != (s != nil) || !fits && !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%.200s: error %v, want %q", raw, err, test.problem)
		}
	}
}

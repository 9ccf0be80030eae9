package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
)

// BenchmarkSkillsList compares a page of 1,000 skills, over loopback, with a handler that writes the same bytes.
func BenchmarkSkillsList(b *testing.B) {
	files := map[string]string{}
	for i := range 1000 {
		files[fmt.Sprintf("skill://acme/s%d/SKILL.md", i)] = "Text"
		files[fmt.Sprintf("skill://acme/s%d/a.md", i)] = "A"
	}
	peer := gatewaytest.NewSkillPeer(b, "up", files)
	for uri := range files { // computed once
		if strings.HasSuffix(uri, "/SKILL.md") {
			peer.Entries[uri] = peer.Entry(uri)
		}
	}
	s := gatewaytest.Serve(b, "gateway {\n page_size = 1000\n}\n"+gatewaytest.Team("eng", "", "", peer.Peer))
	c := s.Modern("")
	body, header := c.Encode("1", "skills/list", "")
	post := func(b *testing.B, url string) []byte {
		r := gatewaytest.NewRequest(b.Context(), b, http.MethodPost, url, body, header)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			b.Fatal(err, response.Status)
		}
		return text
	}
	listed := post(b, c.URL)
	if n := strings.Count(string(listed), `"frontmatter"`); n != 1000 {
		b.Fatalf("%d skills", n)
	}
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(listed)
	}))
	defer bare.Close()
	for name, url := range map[string]string{"gateway": c.URL, "bare": bare.URL} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(listed)))
			b.ReportAllocs()
			for b.Loop() {
				post(b, url)
			}
		})
	}
}

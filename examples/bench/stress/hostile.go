package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/examples/bench/internal/rig"
)

const (
	// mostCores is how much processor time a hostile team may cost, of one core.
	mostCores = 0.2
	// firstPass bounds the wait until all its files were read once, which a bound on its processor time
	// makes long, and settles is the time after that.
	firstPass, settles = 5 * time.Minute, 10 * time.Second
	// blocks is how many upstreams have the same folder of images.
	blocks = 60
)

// runHostileTeam has a team that does with its prompt files whatever costs most, beside one to which the
// others belong.
func (s *settings) runHostileTeam(ctx context.Context) error {
	kept := &checks{}
	err := rig.Run(ctx, func(st *rig.Stage) {
		w := newWorld(st, s, 20)
		alone := st.Gateway(w.configuration(""), nil, w.program)
		troubled := st.Gateway(w.configuration(""), nil, w.program)
		files := hostileFiles(troubled.Dir)
		files.write()
		troubled.Reload(troubled.Text + hostileTeam())
		st.Defer(repeat(50*time.Millisecond, files.change))
		stranger, begun := w.at(troubled.Endpoint), time.Now()
		stranger.Token = strangerToken
		err := rig.Eventually(s.watched(firstPass), func() error {
			names, err := stranger.Walk(ctx)
			if err == nil && !names["texts.p0"] {
				err = errors.New("the team has only a part of its prompts")
			}
			return err
		})
		fmt.Printf("The first pass took %v: %v.\n\n", time.Since(begun).Round(time.Second), err)
		st.Pause(s.watched(settles))
		quiet, cost := w.compare(s, kept, alone, troubled)
		more := cost.cores - quiet.cores
		kept.want(s.busy || more <= mostCores, "%.2f cores more, not at most %.1f", more, mostCores)
	})
	return errors.Join(err, kept.err())
}

func hostileTeam() string {
	var text strings.Builder
	text.WriteString("team \"hostile\" {\n  members = [\"user:stranger\"]\n")
	upstream := func(name, pattern string) {
		fmt.Fprintf(&text, "  upstream %q {\n    files = [%q]\n    texts = true\n  }\n", name, pattern)
	}
	for _, name := range []string{"gaps", "hollow", "texts"} {
		upstream(name, name+"/*.md")
	}
	upstream("maze", "maze/**/*.md")
	for i := range blocks {
		upstream(fmt.Sprint("images", i), "images/*.md")
	}
	text.WriteString("}\n")
	return text.String()
}

// hostileFiles is the folder of a hostile team.
type hostileFiles string

// write writes prompts of as many gaps as there may be, a partial of line breaks that others include
// again and again, folders of links that lead to one another, images, and texts.
func (dir hostileFiles) write() {
	const head = "---\narguments:\n  - name: a\n---\n"
	for i := range 20 {
		dir.file(fmt.Sprintf("gaps/p%d.md", i), head+strings.Repeat("{{a}}", 9_999))
		dir.file(fmt.Sprintf("texts/p%d.md", i), "A text.\n")
	}
	dir.file("hollow/_hollow.md", strings.Repeat("\n", 1<<20))
	for i := range 95 {
		dir.file(fmt.Sprintf("hollow/p%d.md", i), strings.Repeat("{{> _hollow.md}}\n", 1000))
	}
	for i := range 6 {
		dir.file(fmt.Sprintf("maze/%d/p.md", i), "A text.\n")
		for j := range 8 {
			link := filepath.Join(string(dir), "maze", strconv.Itoa(i), fmt.Sprint("link", j))
			rig.Check(os.Symlink(fmt.Sprintf("../%d", j%6), link))
		}
	}
	for i := range 4 {
		dir.file(fmt.Sprintf("images/p%d.md", i), dir.images(fmt.Sprint("image", i)))
	}
	dir.file("images/more.txt", dir.images("more")) // more than the team's account as a prompt: see change
}

// images writes images that are nearly as much as a result may have, and returns a text with them.
func (dir hostileFiles) images(name string) string {
	var text strings.Builder
	for i := range 9 {
		content := make([]byte, 1<<20)
		_, _ = rand.Read(content) // never fails
		dir.file(fmt.Sprintf("images/%s-%d.png", name, i), string(content))
		fmt.Fprintf(&text, "![An image](%s-%d.png)\n\n", name, i)
	}
	return text.String()
}

// change changes a text and, now and then, whether there are too many images.
func (dir hostileFiles) change() {
	now := time.Now().UnixMilli()
	dir.file(fmt.Sprintf("texts/p%d.md", now/50%20), fmt.Sprintf("A text of %d.\n", now))
	less, more := filepath.Join(string(dir), "images", "more.txt"), filepath.Join(string(dir), "images", "more.md")
	if now/5000%2 == 0 {
		less, more = more, less
	}
	_ = os.Rename(less, more) // fails where that has happened
}

func (dir hostileFiles) file(name, content string) {
	path := filepath.Join(string(dir), name)
	rig.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	rig.Check(os.WriteFile(path, []byte(content), 0o600))
}

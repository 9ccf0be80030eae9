package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"go.mau.fi/util/exslices"
)

const (
	day = 24 * time.Hour
	// unusedAfter is the time without a get after which a prompt counts as unused.
	unusedAfter = 90 * day
	// maxUsageBytes bounds the bytes that [ReadUsage] reads.
	maxUsageBytes = 1 << 30
	// maxLineBytes bounds a line of a log. Lines of this package are shorter.
	maxLineBytes = 4 << 20
	// maxNames bounds the subjects in the result of [Names].
	maxNames = 5
)

// Usage is the use of prompts and skills according to an audit log. It does not count gets in the
// console. The zero value is empty.
type Usage struct {
	// From is the time of the earliest line.
	From time.Time

	prompts    map[string]promptUsage
	incomplete bool // older lines were not read because of the limit
}

type promptUsage struct {
	users    map[string]User
	outcomes map[Outcome]int
}

// User is a principal who got a prompt. Groups and Last are as of the latest get.
type User struct {
	Subject   string    `json:"subject"`
	Anonymous bool      `json:"anonymous,omitempty"`
	Groups    []string  `json:"groups,omitempty"`
	Last      time.Time `json:"time"`
}

// Read counts the gets in a part of an audit log. The part may be compressed with gzip. Read ignores
// other events and invalid lines.
func (u *Usage) Read(r io.Reader) error {
	_, err := u.read(r, math.MaxInt64)
	return err
}

// read is Read with a limit for the uncompressed bytes. It returns the number of bytes read.
func (u *Usage) read(r io.Reader, limit int64) (n int64, err error) {
	if u.prompts == nil {
		u.prompts = map[string]promptUsage{}
	}
	buffered := bufio.NewReader(r)
	r = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if r, err = gzip.NewReader(buffered); err != nil {
			return 0, err
		}
	}
	limited := &io.LimitedReader{R: r, N: limit}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		u.addLine(lines.Bytes())
	}
	if limited.N == 0 {
		more, _ := io.CopyN(io.Discard, r, 1)
		u.incomplete = u.incomplete || more > 0
	}
	return limit - limited.N, lines.Err()
}

func (u *Usage) addLine(line []byte) {
	var l struct {
		Event   Event   `json:"event"`
		Method  string  `json:"method"`
		Prompt  string  `json:"prompt"`
		Team    string  `json:"team"`
		Via     string  `json:"via"`
		Outcome Outcome `json:"outcome"`
		User
	}
	if json.Unmarshal(line, &l) != nil || l.Event == "" || l.Last.IsZero() {
		return
	}
	if u.From.IsZero() || l.Last.Before(u.From) {
		u.From = l.Last
	}
	// Skip lines without a team, because their prompts do not exist, and lines with a method, because
	// they are about links in results.
	if l.Event != Get || l.Method != "" || l.Via == "console" || l.Team == "" {
		return
	}
	p, ok := u.prompts[l.Prompt]
	if !ok {
		p = promptUsage{map[string]User{}, map[Outcome]int{}}
		u.prompts[l.Prompt] = p
	}
	if p.outcomes[l.Outcome]++; l.Outcome != Hidden && !l.Last.Before(p.users[l.Subject].Last) {
		p.users[l.Subject] = l.User
	}
}

// Users returns the users of a prompt, sorted by their latest get, the most recent first.
func (u *Usage) Users(prompt string) []User {
	return slices.SortedFunc(maps.Values(u.prompts[prompt].users), func(a, b User) int {
		return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Subject, b.Subject))
	})
}

// Report is the use of all prompts. The prompts are sorted by their latest get: prompts without a get
// come first, then those that have not been used for the longest time.
type Report struct {
	Summary string        `json:"summary"`
	Prompts []PromptUsage `json:"prompts"`
}

// PromptUsage is the use of one prompt. Outcomes also counts gets of callers who may not see the
// prompt.
type PromptUsage struct {
	Name     string          `json:"name"`
	Last     time.Time       `json:"last,omitzero"`
	Unused   bool            `json:"unused"`
	Users    []User          `json:"users,omitempty"`
	Outcomes map[Outcome]int `json:"outcomes,omitempty"`
}

// Report returns the use of the prompts in the catalog and of all other prompts in the log.
func (u *Usage) Report(catalog []string, now time.Time) *Report {
	r := &Report{Prompts: []PromptUsage{}}
	names, unused := slices.AppendSeq(slices.Clone(catalog), maps.Keys(u.prompts)), 0
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		p := PromptUsage{Name: name, Users: u.Users(name), Outcomes: u.prompts[name].outcomes}
		if len(p.Users) > 0 {
			p.Last = p.Users[0].Last
		}
		if p.Unused = now.Sub(p.Last) >= unusedAfter; p.Unused {
			unused++
		}
		r.Prompts = append(r.Prompts, p)
	}
	slices.SortStableFunc(r.Prompts, func(a, b PromptUsage) int { return a.Last.Compare(b.Last) })
	r.Summary = fmt.Sprintf("Unused for %d days: %d of %d prompts", unusedAfter/day, unused, len(r.Prompts))
	if now.Sub(u.From) < unusedAfter {
		r.Summary += "; the log begins on " + u.From.Format(time.DateOnly)
	}
	if u.incomplete {
		r.Summary += "; older parts of the log are not read"
	}
	return r
}

// Names returns the subjects of users as a text, such as "user:ann, user:bob and 3 more".
func Names(users []User) string {
	names := exslices.CastFunc(users[:min(len(users), maxNames)], func(u User) string { return u.Subject })
	text := strings.Join(names, ", ")
	if more := len(users) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Counts returns the numbers of outcomes as a text, such as "1 failed, 3 ok".
func (p PromptUsage) Counts() string {
	return strings.Join(exslices.CastFunc(slices.Sorted(maps.Keys(p.Outcomes)), func(outcome Outcome) string {
		return fmt.Sprintf("%d %s", p.Outcomes[outcome], outcome)
	}), ", ")
}

// ReadUsage reads the log at a path and its rotations, the newest first, up to 1 GiB. Rotations are
// files in the same folder whose names continue the log's name with "." or "-". Even with an error,
// the result contains the parts that could be read.
func ReadUsage(path string) (*Usage, error) { return readUsage(path, maxUsageBytes) }

func readUsage(path string, limit int64) (*Usage, error) {
	u, folder := &Usage{}, filepath.Dir(path)
	entries, err := os.ReadDir(folder)
	problems := []error{err}
	var logs []os.FileInfo
	for _, entry := range entries {
		suffix, ok := strings.CutPrefix(entry.Name(), filepath.Base(path))
		info, err := os.Stat(filepath.Join(folder, entry.Name()))
		if ok && err == nil && info.Mode().IsRegular() && (suffix == "" || suffix[0] == '.' || suffix[0] == '-') {
			logs = append(logs, info)
		}
	}
	slices.SortFunc(logs, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, log := range logs {
		u.incomplete = u.incomplete || log.Size() > limit
		n, err := u.readEnd(filepath.Join(folder, log.Name()), max(0, log.Size()-limit), limit)
		limit -= n
		problems = append(problems, err)
	}
	return u, errors.Join(problems...)
}

// readEnd reads at most limit bytes of a file, starting at offset from. It returns the number of bytes read.
func (u *Usage) readEnd(path string, from, limit int64) (n int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if _, err = file.Seek(from, io.SeekStart); err == nil {
		n, err = u.read(file, limit)
	}
	if err != nil {
		return n, fmt.Errorf("read %s: %w", path, err)
	}
	return n, nil
}

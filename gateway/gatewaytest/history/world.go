package history

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
	"github.com/promptweir/promptweir/upstream/wire"
)

// What the worlds of histories have in common: two servers whose prompts have one prefix, rules that
// show one of some prompts to ann and none to bob, and a limit.
const (
	// Gates is how many prompts there are of which the rules show one.
	Gates = 3
	// Limited is the prompt with a limit.
	Limited = "plain.limited"

	entry, rules = "plain.entry", "rules"
)

// Principals are ann and bob, whose tokens are their names.
func Principals() []string { return []string{"ann", "bob"} }

// Blocks returns the blocks of a configuration, after those of the gateway itself. Plain and spare are
// expressions, the URLs of the servers.
func Blocks(gate, rate, burst int, plain, spare string) string {
	var tokens strings.Builder
	for _, who := range Principals() {
		fmt.Fprintf(&tokens, "  token %q { sha256 = \"%x\" }\n", who, sha256.Sum256([]byte(who)))
	}
	return fmt.Sprintf(`
auth {
%s}
team "rig" {
  members = ["user:nobody"]
  upstream "plain" {
    url       = %s
    skills    = true
    resources = "linked"
  }
  upstream "spare" {
    url    = %s
    prefix = "plain"
  }
  expose "limited" {
    prompts = [%q]
    to      = ["*"]
    limit {
      rate  = %d
      burst = %d
    }
  }
  expose "all" {
    prompts = ["plain.mark*", "plain.other*", %q]
    to      = ["*"]
  }
  expose "gate" {
    prompts = [%q, "skill:%[8]s"]
    to      = ["user:ann"]
  }
}
`, tokens.String(), plain, spare, Limited, rate, burst, entry, gateName(gate))
}

func gateName(gate int) string { return fmt.Sprintf("plain.gate%d", gate) }

// RulesAt returns the operation that has a gate in force at a replica.
func RulesAt(at, gate int) Op {
	return Op{Name: Rules, At: at, Shown: map[string][]string{"ann": {gateName(gate)}}}
}

// RulesChange returns the operation that has a gate in force at all replicas.
func RulesChange(gate int) Op {
	return Op{
		Name: Change, Of: rules, Seen: map[string]string{rules: strconv.Itoa(gate)}, To: []string{"ann"},
	}
}

// Source is one of the servers. Its methods and fields are for one goroutine.
type Source struct {
	*upstreamtest.Peer

	Label string
	// Owns says that it has the entry that both servers may have.
	Owns bool

	changes int
}

// NewSource returns a server that says in gets who answers, with a link. It completes arguments, and
// has a skill beside each gate.
func NewSource(label string, legacy bool) *Source {
	s := &Source{Peer: upstreamtest.NewLoadPeer(legacy, 0), Label: label, Owns: true}
	s.Declare(`{"prompts":{"listChanged":true},"completions":{},"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`)
	var skills []string
	for gate := range Gates {
		skills = append(skills, fmt.Sprintf(`{"uri":"skill://gate%d/SKILL.md","resources":"dynamic",`+
			`"frontmatter":{"name":"gate%[1]d","description":"One of a world."}}`, gate))
	}
	results := map[string]string{
		wire.PromptsGet: `"messages":[{"role":"user","content":{"type":"text","text":"` + label + ` answers"}},` +
			`{"role":"user","content":{"type":"resource_link","uri":"rig://notes","name":"notes"}}]`,
		wire.Complete:   `"completion":{"values":["` + label + `"]}`,
		wire.SkillsList: `"skills":[` + strings.Join(skills, ",") + `]`,
	}
	for method, result := range results {
		s.Result(method, `{"resultType":"complete",`+result+`}`)
	}
	s.Handle(wire.ResourcesRead, func(w http.ResponseWriter, r *upstreamtest.Request) {
		uri, _ := wire.Members(r.Message.Params).Text("uri")
		skill, _, _ := strings.Cut(strings.TrimPrefix(uri, "skill://"), "/")
		r.Result(w, fmt.Sprintf(`{"resultType":"complete","contents":[{"uri":%q,"text":"---\nname: %s\ndescription: One of a world.\n---\n"}]}`, uri, skill))
	})
	return s
}

// Change has the list change to another one.
func (s *Source) Change(r *Recorder) {
	s.changes++
	s.offer(r)
}

// GoBack has the list change to the one before.
func (s *Source) GoBack(r *Recorder) {
	s.changes--
	s.offer(r)
	s.changes++
}

// Mark returns the content of the list.
func (s *Source) Mark() string { return fmt.Sprintf("%05d", s.changes) }

// Repeat records the list again, as the first of a history.
func (s *Source) Repeat(r *Recorder) { s.offer(r) }

func (s *Source) offer(r *Recorder) {
	sent, mark := time.Now(), s.Mark()
	var names []string
	if s.Owns {
		names = append(names, "entry")
	}
	if s.Label == "spare" {
		names = append(names, "other"+mark)
	} else {
		names = append(names, "mark"+mark, "limited")
		for gate := range Gates {
			names = append(names, fmt.Sprintf("gate%d", gate))
		}
	}
	prompts, entries := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		prompts[i], entries[i] = upstreamtest.Prompt(name, "One of a world."), "plain."+name
	}
	s.Offer(prompts...)
	o := Op{Name: Change, Of: s.Label, Seen: map[string]string{s.Label: mark}, Names: entries}
	r.Note(o, sent, nil)
}

// ReadList returns what is in a list, see [Audience].
func ReadList(names map[string]bool) (seen map[string]string, shown []string, err error) {
	seen = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for prefix, part := range map[string]string{"plain.mark": "plain", "plain.other": "spare", "plain.gate": rules} {
			mark, ok := strings.CutPrefix(name, prefix)
			if ok && seen[part] != "" && part != rules {
				return nil, nil, fmt.Errorf("the list has two changes of %s: %s and %s", part, seen[part], mark)
			}
			if ok {
				seen[part] = mark
			}
		}
		if strings.HasPrefix(name, "plain.gate") {
			shown = append(shown, name)
		}
	}
	return seen, shown, nil
}

// Getter returns what gets prompts for a principal, mostly the one with a limit, completes arguments
// and reads skills and the links that it was given, with pauses, until its context ends. Draw returns
// a number below another.
func (a *Audience) Getter(id int, who string, pause func() time.Duration, draw func(int) int) func(context.Context) {
	return func(ctx context.Context) {
		var links [Gates]string
		for ctx.Err() == nil {
			o := Op{Client: id, Who: who, Name: Get, At: 1 + draw(len(a.Endpoints)), Of: Limited}
			gate := draw(Gates)
			switch draw(10) {
			case 0:
				o.Of = entry
			case 1:
				o.Of = gateName(gate)
			case 2:
				o.Name, o.Of = Complete, gateName(gate)
			case 3:
				o.Name, o.Of = Read, fmt.Sprintf("skill://plain/gate%d/SKILL.md", gate)
			case 4:
				o.Name, o.Of = Read, cmp.Or(links[gate], "promptweir://guessed")
			}
			if o.Of != Limited && o.Of != entry {
				o.Names = []string{gateName(gate)}
			}
			if link := a.do(ctx, o); link != "" && o.Of == gateName(gate) {
				links[gate] = link
			}
			select {
			case <-time.After(pause()):
			case <-ctx.Done():
			}
		}
	}
}

package skills

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// RootUnder returns the URI under which clients find a skill's folder. It is below the upstream's prefix, if
// the upstream has one.
func (s *Skill) RootUnder(prefix string) string {
	root := "skill://"
	if prefix != "" {
		root += wire.EscapeSegment(prefix) + "/"
	}
	return root + s.Path
}

// Under returns the entry with all URIs moved from the skill's root to another root. Its last member
// is a _meta, for [Append].
func (s *Skill) Under(root string) jsontext.Value {
	entry := wire.Members(s.Entry)
	moved := func(o wire.Object) wire.Object {
		uri, _ := o.Text("uri")
		return o.With("uri", wire.Quote(root+strings.TrimPrefix(uri, s.Root)))
	}
	if !s.Dynamic {
		files, _ := wire.ParseArray(entry.Get("resources")) // no error: Parse has checked it
		for i := range files {
			files[i] = moved(wire.Members(files[i])).JSON()
		}
		entry = entry.With("resources", wire.Array(files))
	}
	meta := entry.Object("_meta").Without(wire.IsOwnMeta)
	// Move _meta to the end, even if it is empty: Append adds a member there.
	entry = entry.Without(func(name string) bool { return name == "_meta" })
	return moved(entry).With("_meta", meta.JSON()).JSON()
}

// Append appends an entry from [Skill.Under] to dst, with one more member in its _meta.
func Append(dst, entry, member []byte) []byte {
	end := len(entry) - len("}}")
	if dst = append(dst, entry[:end]...); entry[end-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(dst, member...), "}}"...)
}

// MetaProvenance is the _meta key of a skill's [Origin].
const MetaProvenance = wire.MetaPrefix + "provenance"

// Origin tells a client where a skill comes from.
type Origin struct {
	Team, Upstream string
	Lock           string // empty if definitions are not locked
	Rule           string // the rule that shows the skill; may be empty
}

// Member returns the origin as a member for [Append].
func (o Origin) Member() []byte {
	about := wire.Object{}.With("team", wire.Quote(o.Team)).With("upstream", wire.Quote(o.Upstream)).
		WithText("lock", o.Lock).WithText("rule", o.Rule)
	member := wire.Object{}.With(MetaProvenance, about.JSON()).JSON()
	return member[len("{") : len(member)-len("}")]
}

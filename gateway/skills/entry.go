package skills

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

// RootUnder returns the clients' URI of a skill's folder. The prefix is the upstream's, and may be empty.
func (s *Skill) RootUnder(prefix string) string {
	root := "skill://"
	if prefix != "" {
		root += wire.EscapeSegment(prefix) + "/"
	}
	return root + s.Path
}

// Under returns the entry with the URIs of another root, and a _meta as its last member.
func (s *Skill) Under(root string) jsontext.Value {
	entry := wire.Members(s.Entry)
	moved := func(o wire.Object) wire.Object {
		uri, _ := o.Text("uri")
		return o.With("uri", wire.Quote(root+strings.TrimPrefix(uri, s.Root)))
	}
	if !s.Dynamic {
		files, _ := wire.ParseArray(entry.Get("resources")) // it was parsed before
		for i := range files {
			files[i] = moved(wire.Members(files[i])).JSON()
		}
		entry = entry.With("resources", wire.Array(files))
	}
	meta := entry.Object("_meta").Without(wire.IsOwnMeta)
	// _meta goes to the end, even if it is empty, because Append adds a member there.
	entry = entry.Without(func(name string) bool { return name == "_meta" })
	return moved(entry).With("_meta", meta.JSON()).JSON()
}

// Append appends an entry from [Skill.Under] to dst, with a member in its _meta.
func Append(dst, entry, member []byte) []byte {
	end := len(entry) - len("}}")
	if dst = append(dst, entry[:end]...); entry[end-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(dst, member...), "}}"...)
}

// MetaProvenance is the _meta key with the origin of a skill.
const MetaProvenance = wire.MetaPrefix + "provenance"

// Origin is the origin of a skill. Lock is empty if nothing is locked, and Rule is empty if no rule
// shows the skill.
type Origin struct{ Team, Upstream, Lock, Rule string }

// Member returns the origin as a member for [Append].
func (o Origin) Member() []byte {
	about := wire.Object{}.With("team", wire.Quote(o.Team)).With("upstream", wire.Quote(o.Upstream))
	if o.Lock != "" {
		about = about.With("lock", wire.Quote(o.Lock))
	}
	if o.Rule != "" {
		about = about.With("rule", wire.Quote(o.Rule))
	}
	member := wire.Object{}.With(MetaProvenance, about.JSON()).JSON()
	return member[len("{") : len(member)-len("}")]
}

package policy

import (
	"reflect"
	"regexp"
	"slices"

	"github.com/promptweir/promptweir/config"
)

// locks adds locks that are newly enforced or no longer enforced, and changes of the definitions
// that the lock file approves.
func (d *differ) locks(before, after *config.Config) {
	d.lock(ownerOf(""), before.Gateway.Lock, after.Gateway.Lock)
	// If the gateway enforces its lock before or after, do not compare the locks of teams: the
	// gateway's lock applies to all teams.
	everywhere := enforced(before.Gateway.Lock) || enforced(after.Gateway.Lock)
	both := enforced(before.Gateway.Lock) && enforced(after.Gateway.Lock)
	was, is := byName(before.Teams), byName(after.Teams)
	for _, name := range unionOfNames(before.Teams, after.Teams) {
		old, now := was[name].Lock, is[name].Lock
		if !everywhere {
			d.lock(ownerOf(name), old, now)
			both = both || enforced(old) && enforced(now)
		}
	}
	// Compare approvals only if a lock is enforced before and after. If enforcement starts or ends,
	// that change is reported instead.
	if changes := config.DiffLocks(before.Lock, after.Lock); both && len(changes) > 0 {
		d.add(Other, config.Place{}, "%s approves different definitions: %d are added, changed "+
			"or removed", config.LockFile, len(changes))
	}
}

// enforced reports whether a lock leaves out prompts that are not approved. In other modes, it leaves
// out nothing.
func enforced(l config.LockSetting) bool { return l.Mode == config.LockEnforce }

// lock adds the change of one block's lock.
func (d *differ) lock(whose string, before, after config.LockSetting) {
	switch {
	case enforced(after) && !enforced(before):
		d.add(Added, after.Place, "lock = %q %s leaves out prompts that %s does "+
			"not approve", after.Mode, whose, config.LockFile)
	case enforced(before) && !enforced(after):
		d.add(Removed, before.Place, "lock = %q %s is removed: prompts that %s does not approve are "+
			"no longer left out", before.Mode, whose, config.LockFile)
	}
}

// screens adds new and removed screen blocks of a team, or of the gateway if team is empty.
func (d *differ) screens(team string, before, after []config.Screen) {
	whose := ownerOf(team)
	for _, old := range unlike(before, after) {
		d.add(Removed, old.Place, "screen %q %s is no longer in effect: action = %q", old.Label, whose, old.Action)
	}
	for _, now := range unlike(after, before) {
		d.add(Added, now.Place, "screen %q %s takes effect: action = %q", now.Label, whose, now.Action)
	}
}

// unlike returns the elements of screens that change or reject prompts and have no equivalent among
// others.
func unlike(screens, others []config.Screen) []config.Screen {
	return slices.DeleteFunc(slices.Clone(screens), func(s config.Screen) bool {
		return s.Action == config.ScreenWarn || slices.ContainsFunc(others, func(other config.Screen) bool { return alike(s, other) })
	})
}

// alike reports whether two blocks have the same action and the same checks. It ignores labels
// and locations.
func alike(a, b config.Screen) bool {
	isSamePattern := func(a, b *regexp.Regexp) bool { return a.String() == b.String() }
	return a.Action == b.Action && a.Invisible == b.Invisible && a.WellFormed == b.WellFormed && a.Skills == b.Skills &&
		a.MaxSize == b.MaxSize &&
		slices.Equal(a.Content, b.Content) && slices.EqualFunc(a.Patterns, b.Patterns, isSamePattern)
}

// callers adds changes of the tokens, issuers and client certificates of two auth blocks.
func (d *differ) callers(before, after *config.Auth) {
	was, is := holders(before.Tokens), holders(after.Tokens)
	for _, old := range before.Tokens {
		if who := "user:" + config.Qualify(old.As, old.Subject); is[who] == nil {
			d.add(Removed, old.Place, "%s no longer has a token", who)
		}
	}
	for _, now := range after.Tokens {
		who := "user:" + config.Qualify(now.As, now.Subject)
		if was[who] == nil {
			d.add(Added, now.Place, "%s has a token", who)
		}
		d.holder(now.Place, who, was[who], is[who])
		delete(was, who) // a subject with several tokens is reported once
	}
	d.issuers(before.JWTs, after.JWTs)
	switch old, now := before.ClientCertificates, after.ClientCertificates; {
	case old == nil && now != nil:
		d.add(Added, config.Place{}, "client certificates are accepted")
	case old != nil && now == nil:
		d.add(Removed, config.Place{}, "client certificates are no longer accepted")
	case old != nil && *old != *now:
		d.add(Other, config.Place{}, "client certificates identify other callers: as = %q instead of %q", now.As, old.As)
	}
}

// holders returns the tokens of each subject.
func holders(tokens []config.Token) map[string][]config.Token {
	all := map[string][]config.Token{}
	for _, t := range tokens {
		who := "user:" + config.Qualify(t.As, t.Subject)
		all[who] = append(all[who], t)
	}
	return all
}

// holder adds the changes of one subject's groups and tokens. It does nothing for a new subject.
func (d *differ) holder(place config.Place, who string, before, after []config.Token) {
	if before == nil { // callers has added the new subject
		return
	}
	pairs(groupsOf(before), groupsOf(after), func(group *string) string { return *group }, func(old, now *string) {
		switch {
		case now == nil:
			d.add(Removed, place, "%s is no longer in group:%s", who, *old)
		case old == nil:
			d.add(Added, place, "%s is in group:%s", who, *now)
		}
	})
	// Report a changed token: a different person may have it.
	if !slices.EqualFunc(before, after, func(a, b config.Token) bool { return a.SHA256 == b.SHA256 }) {
		d.add(Other, place, "%s has a different token", who)
	}
}

// groupsOf returns the groups of tokens, with the prefixes from their attribute "as".
func groupsOf(tokens []config.Token) (groups []string) {
	for _, t := range tokens {
		for _, group := range t.Groups {
			groups = append(groups, config.Qualify(t.As, group))
		}
	}
	return groups
}

// issuers adds the changes of jwt blocks. It matches blocks by their labels.
func (d *differ) issuers(before, after []config.JWT) {
	pairs(before, after, func(j *config.JWT) string { return j.Name }, func(old, now *config.JWT) {
		switch {
		case now == nil:
			d.add(Removed, old.Place, "tokens of jwt %q are no longer accepted", old.Name)
		case old == nil:
			d.add(Added, now.Place, "tokens of jwt %q are accepted", now.Name)
		default:
			// Compare all settings except the location.
			was, is := *old, *now
			was.Place, is.Place = config.Place{}, config.Place{}
			if !reflect.DeepEqual(was, is) {
				d.add(Other, now.Place, "jwt %q has different settings: it may accept other tokens or "+
					"identify callers differently", now.Name)
			}
		}
	})
}

package policy

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/promptweir/promptweir/config"
)

// What follows is what changes who sees what beside the rules: how callers become known, and what leaves prompts out.

// callers adds what changes in whom credentials stand for, where there is an auth block before and after.
func (d *differ) callers(before, after *config.Auth) {
	was, is := holders(before.Tokens), holders(after.Tokens)
	for _, old := range before.Tokens {
		if who := "user:" + qualified(old.As, old.Subject); is[who] == nil {
			d.add(Less, old.Place, "%s has no token any more", who)
		}
	}
	for _, now := range after.Tokens {
		who := "user:" + qualified(now.As, now.Subject)
		if was[who] == nil {
			d.add(More, now.Place, "%s has a token", who)
		}
		d.holder(now.Place, who, was[who], is[who])
		delete(was, who) // said once
	}
	d.issuers(before.JWTs, after.JWTs)
	switch old, now := before.Certificates, after.Certificates; {
	case old == nil && now != nil:
		d.add(More, config.Place{}, "client certificates are accepted")
	case old != nil && now == nil:
		d.add(Less, config.Place{}, "client certificates are not accepted any more")
	case old != nil && *old != *now:
		d.add(Other, config.Place{}, "client certificates stand for other callers: as = %q instead of %q", now.As, old.As)
	}
}

// holders are the tokens of each subject.
func holders(tokens []config.Token) map[string][]config.Token {
	all := map[string][]config.Token{}
	for _, t := range tokens {
		who := "user:" + qualified(t.As, t.Subject)
		all[who] = append(all[who], t)
	}
	return all
}

func qualified(as, name string) string {
	if as == "" {
		return name
	}
	return as + "/" + name
}

// holder adds what changes for one who had a token and has one.
func (d *differ) holder(place config.Place, who string, before, after []config.Token) {
	if before == nil {
		return
	}
	was, is := groupsOf(before), groupsOf(after)
	for _, group := range was {
		if !slices.Contains(is, group) {
			d.add(Less, place, "%s is not in group:%s any more", who, group)
		}
	}
	for _, group := range is {
		if !slices.Contains(was, group) {
			d.add(More, place, "%s is in group:%s", who, group)
		}
	}
	if !slices.EqualFunc(before, after, func(a, b config.Token) bool { return a.SHA256 == b.SHA256 }) {
		d.add(Other, place, "%s has another token", who)
	}
}

func groupsOf(tokens []config.Token) (groups []string) {
	for _, t := range tokens {
		for _, group := range t.Groups {
			groups = append(groups, qualified(t.As, group))
		}
	}
	return groups
}

// issuers adds what changes in the jwt blocks, which their labels tell apart.
func (d *differ) issuers(before, after []config.JWT) {
	find := func(in []config.JWT, name string) *config.JWT {
		if at := slices.IndexFunc(in, func(j config.JWT) bool { return j.Name == name }); at >= 0 {
			return &in[at]
		}
		return nil
	}
	for i := range before {
		if old := &before[i]; find(after, old.Name) == nil {
			d.add(Less, old.Place, "tokens by jwt %q are not accepted any more", old.Name)
		}
	}
	for _, now := range after {
		old := find(before, now.Name)
		if old == nil {
			d.add(More, now.Place, "tokens by jwt %q are accepted", now.Name)
			continue
		}
		was, place := *old, now.Place
		was.Place, now.Place = config.Place{}, config.Place{}
		if !reflect.DeepEqual(was, now) {
			d.add(Other, place, "tokens by jwt %q are accepted, or stand for callers, otherwise", now.Name)
		}
	}
}

// locks adds where the lock file begins or ends to leave prompts out, and that it approves others.
func (d *differ) locks(before, after *config.Config) {
	d.lock("of the gateway", before.Gateway.Lock, after.Gateway.Lock)
	everywhere := enforced(before.Gateway.Lock) || enforced(after.Gateway.Lock)
	both := enforced(before.Gateway.Lock) && enforced(after.Gateway.Lock)
	was, is := byName(before.Teams), byName(after.Teams)
	for _, name := range unionOfNames(before.Teams, after.Teams) {
		old, now := was[name].Lock, is[name].Lock
		if !everywhere {
			d.lock(fmt.Sprintf("of team %q", name), old, now)
			both = both || enforced(old) && enforced(now)
		}
	}
	if changes := config.DiffLocks(before.Lock, after.Lock); both && len(changes) > 0 {
		d.add(Other, config.Place{}, "%s approves other definitions: %d are new, changed or gone", config.LockFile, len(changes))
	}
}

func enforced(l config.Locking) bool { return l.Mode == config.LockEnforce }

func (d *differ) lock(whose string, before, after config.Locking) {
	switch {
	case enforced(after) && !enforced(before):
		d.add(Less, after.Place, "lock = %q %s leaves out what %s does not approve", after.Mode, whose, config.LockFile)
	case enforced(before) && !enforced(after):
		d.add(More, before.Place, "lock = %q %s is gone: what %s does not approve is not left out any more", before.Mode, whose, config.LockFile)
	}
}

// screens adds what screen blocks of a team, or with "" of the gateway, begin or cease to keep out.
func (d *differ) screens(team string, before, after []config.Screen) {
	whose := "of the gateway"
	if team != "" {
		whose = fmt.Sprintf("of team %q", team)
	}
	for _, old := range unlike(before, after) {
		d.add(More, old.Place, "screen %q %s does not %s what it found any more", old.Label, whose, old.Action)
	}
	for _, now := range unlike(after, before) {
		d.add(Less, now.Place, "screen %q %s is to %s what it finds", now.Label, whose, now.Action)
	}
}

// unlike returns the blocks that change what is seen and that are not among the others.
func unlike(screens, others []config.Screen) (all []config.Screen) {
	for _, s := range screens {
		if s.Action != config.ScreenWarn && !slices.ContainsFunc(others, func(other config.Screen) bool { return alike(s, other) }) {
			all = append(all, s)
		}
	}
	return all
}

// alike reports whether two blocks do the same, wherever they stand.
func alike(a, b config.Screen) bool {
	patterns := func(s config.Screen) (all []string) {
		for _, p := range s.Patterns {
			all = append(all, p.String())
		}
		return all
	}
	return a.Action == b.Action && a.Invisible == b.Invisible && a.MaxSize == b.MaxSize &&
		slices.Equal(a.Content, b.Content) && slices.Equal(patterns(a), patterns(b))
}

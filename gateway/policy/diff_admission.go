package policy

import (
	"slices"

	"github.com/promptweir/promptweir/config"
)

// locks adds where the lock begins or ceases to leave prompts out, and whether the lock file
// approves other definitions.
func (d *differ) locks(before, after *config.Config) {
	d.lock(ownerOf(""), before.Gateway.Lock, after.Gateway.Lock)
	// A lock of the gateway holds for every team, so those of teams change nothing while it is
	// there.
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
	// Other approvals matter only where the lock is enforced before and after: elsewhere everything
	// changes anyway.
	if changes := config.DiffLocks(before.Lock, after.Lock); both && len(changes) > 0 {
		d.add(Other, config.Place{}, "%s approves different definitions: %d are added, changed or removed", config.LockFile, len(changes))
	}
}

// enforced reports whether a lock leaves prompts out. One that only warns changes nothing that is
// visible.
func enforced(l config.LockSetting) bool { return l.Mode == config.LockEnforce }

// lock adds the change of one block's lock.
func (d *differ) lock(whose string, before, after config.LockSetting) {
	switch {
	case enforced(after) && !enforced(before):
		d.add(Less, after.Place, "lock = %q %s leaves out prompts that %s does not approve", after.Mode, whose, config.LockFile)
	case enforced(before) && !enforced(after):
		d.add(More, before.Place, "lock = %q %s is removed: prompts that %s does not approve are no longer left out", before.Mode, whose, config.LockFile)
	}
}

// screens adds the screen blocks of a team, or of the gateway if team is empty, that take effect or
// cease to.
func (d *differ) screens(team string, before, after []config.Screen) {
	whose := ownerOf(team)
	for _, old := range unlike(before, after) {
		d.add(More, old.Place, "screen %q %s is no longer in effect: action = %q", old.Label, whose, old.Action)
	}
	for _, now := range unlike(after, before) {
		d.add(Less, now.Place, "screen %q %s takes effect: action = %q", now.Label, whose, now.Action)
	}
}

// unlike returns the blocks that change or reject prompts and that have no equal among the others.
func unlike(screens, others []config.Screen) (all []config.Screen) {
	for _, s := range screens {
		if s.Action != config.ScreenWarn && !slices.ContainsFunc(others, func(other config.Screen) bool { return alike(s, other) }) {
			all = append(all, s)
		}
	}
	return all
}

// alike reports whether two blocks do the same, whatever their labels and places.
func alike(a, b config.Screen) bool {
	patterns := func(s config.Screen) (all []string) {
		for _, p := range s.Patterns {
			all = append(all, p.String())
		}
		return all
	}
	return a.Action == b.Action && a.Invisible == b.Invisible && a.WellFormed == b.WellFormed && a.MaxSize == b.MaxSize &&
		slices.Equal(a.Content, b.Content) && slices.Equal(patterns(a), patterns(b))
}

// Package publish answers: who makes the snapshots, and who is notified of them?
//
//	changed ◀── an upstream's state changed, or a list is admitted
//	     │
//	publishChanges ─▶ builder.publish: admit ─▶ merge ─▶ Successor ─▶ Swap ─▶ announcements.add ─▶ announceChanges
//	                        ▲                                          │                                  │
//	NewGeneration ─▶ Replace: start, awaitTakeover, readmit,           └─▶ stateDir.run     Subscription.Changed
//	                 replace, publish, retire
//
// Admission is the path of a definition from an upstream's list to the catalog: the lock file approves
// it, its prompt block overrides parts of it, and the screen blocks check the result. Each endpoint
// serves only the definitions that were admitted from its own list.
//
// In addition, subscription.go wakes the streams, state_dir.go saves lists for the next start, and
// reports.go and unmatched.go write the findings for people. Package snapshot holds the views and waits
// for the first lists, package edge bounds the streams, package catalog decides which owner of a shared
// prefix serves a name, and package config decides which text of a broken team file is used.
//
// Promises:
//   - The [Publisher] is the only writer of snapshots. [New] writes the first one, and one goroutine
//     that [Publisher.Run] starts (publishChanges) all others.
//   - Each list is admitted in a goroutine, and delays only its own upstream: the earlier list stays in
//     the catalog while other upstreams change. A list that was admitted by the rules of one
//     configuration is not published under another.
//   - A subscription wakes once the changed snapshot can be read, and only if the view of its own
//     principal changed. After a burst of changes it may wake without one. At most one notification is
//     pending for a slow subscriber. With replicas it wakes again later, when the other replicas should
//     have the same change.
//   - A reload merges the catalog again, and reuses unchanged parts: definitions stay admitted unless
//     their list, lock, override or screens changed, and connectors stay unless their connection
//     settings changed.
//   - With a state_dir, the last good list of each upstream survives a restart.
//   - When Run has returned, all connectors and admissions have ended.
package publish

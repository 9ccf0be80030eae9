// Package snapshot answers: what does the gateway know at this moment, for one request to use from
// beginning to end?
//
//	configuration ──▶ Generation: policy, identity, sealer, admission, connectors ──┐
//	                                                                                ▼
//	upstream changed ──▶ Publisher: merge admitted lists ▶ Snapshot {Generation, Catalog, States}, swapped in
//	                       │      ▲                             │
//	                       ▼      │                             └▶ each subscription: did its own view change? ▶ wake
//	         a goroutine for a list that takes long to admit
//
// A definition passes three checks between an upstream's list and the catalog, which together are
// its admission: the lock file approves it, its prompt block overrides parts of it, and the screen
// blocks look at the result. Each endpoint's own list is admitted, and an endpoint serves only what
// was admitted of it.
//
// Promises:
//   - Snapshots and generations are immutable and swapped atomically. A request loads one and uses
//     it to the end, so that identity, sealer, policy and catalog belong to one configuration.
//   - The [Publisher] is the only writer. Its goroutine runs in [Publisher.Run]; everything else
//     only reads.
//   - The publisher admits lists for 5 ms before it publishes; one that takes longer is admitted
//     beside it, and costs its own upstream only: its earlier list stays in the catalog while other
//     upstreams change, a reload takes effect or Run ends. No list that was admitted by one
//     configuration's rules is published by another's.
//   - A subscription wakes once the changed snapshot can be read, and only if the view of its own
//     principal changed. A slow subscriber costs nothing: at most one bit is pending for it.
//   - With replicas it wakes a little later, when all of them have the change, and again if one of
//     them has it later than that.
//   - A change of an upstream's state costs the same however many upstreams there are, but for a
//     copy of two lists of pointers.
//   - A new configuration costs what it changes. Definitions stay admitted unless their list, lock,
//     override or screens changed; entries and views stay unless the policy or a name changed.
//   - With a state_dir, the last good list of each upstream survives a restart.
package snapshot

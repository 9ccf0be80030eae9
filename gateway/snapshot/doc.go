// Package snapshot answers: what does the gateway know at this moment, for one request to use from
// beginning to end?
//
//	Source.Current ──▶ Snapshot ──┬──▶ Generation   one configuration: policy, identity, sealer, connectors
//	                              ├──▶ Contents     the catalog and the upstreams' states
//	                              └──▶ View         the entries that one audience sees
//	Snapshot.Authenticate ──▶ Caller ──▶ Source.Renew: after a reload, by the next generation
//
// Promises:
//   - Snapshots and generations are immutable and swapped atomically. A request loads one and uses
//     it to the end, so that identity, sealer, policy and catalog belong to one configuration.
//   - Only package publish makes them and calls [Source.Swap].
//   - Nothing here starts a goroutine or contacts a server: a [Connector] is an interface, and package
//     snapshottest has one in memory. Views are built on first use.
//   - Views survive a new snapshot, except after a reload. Only changed entries are updated.
package snapshot

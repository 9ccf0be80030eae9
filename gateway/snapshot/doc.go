// Package snapshot answers: which configuration, catalog and upstream states does one request use
// from beginning to end?
//
//	Source.Current ──▶ Snapshot ──┬──▶ Generation   one configuration: policy, identity, sealer, connectors
//	                              ├──▶ Contents     the catalog and the upstreams' states
//	                              └──▶ View         the entries that one audience sees
//	Snapshot.Authenticate ──▶ Caller ──▶ Source.Renew: authenticates again after a reload
//
// Promises:
//   - Snapshots and generations are immutable and swapped atomically. A request loads one and uses
//     it to the end, so that identity, sealer, policy and catalog belong to one configuration.
//   - Only package publish makes them and calls [Source.Swap].
//   - Nothing here starts a goroutine. Only a [Connector] contacts a server. Package snapshottest has
//     a connector in memory. Views are built on first use.
//   - The views of one snapshot move on to the next, except after a reload: only entries that changed
//     in the catalog are updated.
package snapshot

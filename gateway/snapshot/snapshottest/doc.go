// Package snapshottest makes snapshots in memory: without a network, a server or a goroutine. Each
// upstream is a list of definitions and a function that answers calls.
//
//	p := snapshottest.New(t, `team "eng" {
//	  upstream "docs" { url = "http://127.0.0.1:1/docs" } # never contacted
//	}`, snapshottest.Upstreams{"docs": {Definitions: []string{`{"name":"intro"}`}}})
//	p.Current().Catalog.Lookup("docs.intro")
package snapshottest

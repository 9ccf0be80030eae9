package main

import (
	"slices"
	"testing"
	"time"
)

// apart returns changes of one server after another, with a pause between them.
func apart(servers, n int, pause time.Duration) (changes []change) {
	for i := range n {
		changes = append(changes, change{time.Duration(i) * pause, i % servers})
	}
	return changes
}

func TestSimulate_IsRepeatable(t *testing.T) {
	f := fleet{replicas: 5, servers: 20, listeners: 200, teams: 4, answer: time.Millisecond, pages: 2, clientPages: 3, shared: true, tells: true}
	a, b := simulate(f, 1, apart(20, 100, 10*time.Millisecond)), simulate(f, 1, apart(20, 100, 10*time.Millisecond))
	if !slices.Equal(a.latencies, b.latencies) || a.commands != b.commands || a.told != b.told {
		t.Errorf("two runs differ: %+v and %+v", a.commands, b.commands)
	}
}

// Changes that are far apart cost what the formulas on the page say.
func TestSimulate_CountsASingleChange(t *testing.T) {
	const n = 50
	changes := apart(10, n, 2*time.Second)
	for _, replicas := range []int{1, 3, 10} {
		f := fleet{replicas: replicas, servers: 10, listeners: 100, teams: 5, answer: time.Millisecond, pages: 2, clientPages: 3}
		got := simulate(f, 1, changes)
		seeing := f.listeners / f.teams
		if got.lists != n*replicas*f.pages || got.notified != n*replicas || got.commands != 0 {
			t.Errorf("%d replicas: %d pages of lists, %d notifications, %d commands", replicas, got.lists, got.notified, got.commands)
		}
		if got.told != n*seeing || got.clientLists != n*seeing*f.clientPages {
			t.Errorf("%d replicas: %d clients told, who list %d pages, want %d and %d", replicas, got.told, got.clientLists, n*seeing, n*seeing*f.clientPages)
		}
		f.shared, f.listSize = true, 300<<10
		got = simulate(f, 1, changes)
		if want := n * (1 + 2 + 1 + 1 + 1 + (replicas-1)*(1+2)); got.lists != n*f.pages || got.commands != want {
			t.Errorf("%d replicas that share: %d pages of lists and %d commands, want %d and %d", replicas, got.lists, got.commands, n*f.pages, want)
		}
		f.tells = true
		got = simulate(f, 1, changes)
		if got.told != n*seeing {
			t.Errorf("%d replicas that tell each other: %d clients told, want %d", replicas, got.told, n*seeing)
		}
		if said := got.published - n; said < n || said > n*replicas {
			t.Errorf("%d replicas have said %d times what they serve, want each change to be said", replicas, said)
		}
	}
}

// A replica that is late has the clients of others told again, and nobody more than twice.
func TestSimulate_TellsAgainWhenAReplicaIsLate(t *testing.T) {
	const n = 50
	f := fleet{replicas: 10, servers: 10, listeners: 100, teams: 1, pages: 1, clientPages: 1, answer: time.Millisecond, tells: true, late: 20}
	if got := simulate(f, 1, apart(10, n, 2*time.Second)); got.told <= n*f.listeners*11/10 || got.told > 2*n*f.listeners {
		t.Errorf("%d clients told of %d changes, want some of %d twice", got.told, n, f.listeners)
	}
	f.replicas = 1
	if got := simulate(f, 1, apart(10, n, 2*time.Second)); got.told != n*f.listeners {
		t.Errorf("%d clients of a single replica told of %d changes, want each once", got.told, n)
	}
}

// However often a server changes, it is listed four times a second at most, and no client is told more than twice.
func TestSimulate_PacesAServerThatKeepsChanging(t *testing.T) {
	f := fleet{replicas: 3, servers: 1, listeners: 30, teams: 1, answer: time.Millisecond, pages: 1, clientPages: 1}
	got := simulate(f, 1, apart(1, 1000, 10*time.Millisecond)) // ten seconds
	if perReplica := got.lists / f.replicas; perReplica < 30 || perReplica > 42 {
		t.Errorf("%d lists in ten seconds, want four a second", perReplica)
	}
	if perClient := got.told / f.listeners; perClient < 15 || perClient > 22 {
		t.Errorf("%d notifications in ten seconds, want two a second", perClient)
	}
}

package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// The model counts what a change of a list causes. It is of messages, and not of how long anything takes to work on: a machine never
// becomes the bottleneck. It assumes:
//   - A message takes 0.1 to 1 ms.
//   - A replica serves a list 1 to 4 ms after it has it, unless it is late: then 50 to 250 ms after it.
//   - A client that is told lists all that it sees, at whichever replica.
//   - Servers have teams in turn, and so have clients; a client sees the servers of its team.
//
// The rest is the gateway's own, with where it stands there.
const (
	// quietTime is how long after a list further changes are collected for the next one: upstream/refresh.go.
	quietTime = 250 * time.Millisecond
	// settleTime is how long a replica waits before it tells its clients, so that the others have the change, and half of it how long what
	// another one has said counts as just said: gateway/snapshot/elsewhere.go.
	settleTime = 100 * time.Millisecond
	// minPause is the least time between two notifications of one client: gateway/transport/stream.go.
	minPause = 500 * time.Millisecond
	// pieceSize is how much of a list goes to or from the store at once: gateway/cluster/lists.go.
	pieceSize = 256 << 10
	// leaseRenewal is how often the replica that watches says so: gateway/cluster/watches.go.
	leaseRenewal = 2025 * time.Millisecond
	// indexLook is how often each replica looks at what has happened to leases, and leaseLook how often at one where nothing has, on average:
	// gateway/cluster/looks.go.
	indexLook, leaseLook = time.Second, 5 * time.Minute
	// probeInterval and readInterval are how often each replica asks the store whether it is there, and for what was announced:
	// gateway/cluster/probe.go, announce.go.
	probeInterval, readInterval = time.Second, 5 * time.Second
	// maxSilence is how long a session is silent before the server is asked for a sign of life: upstream/sign_of_life.go.
	maxSilence = 30 * time.Second
)

// fleet is what is modelled.
type fleet struct {
	replicas, servers, listeners, teams int
	// pages is on how many pages a server has its list, clientPages on how many a client gets all that it sees.
	pages, clientPages int
	// answer is the longest that a server takes to answer a page; the shortest is a fifth of it.
	answer time.Duration
	// late says that in one of so many cases a replica is late; 0 is never.
	late int
	// listSize is that of a list in the store, in bytes.
	listSize int
	// shared says that one replica watches each server, for all.
	shared bool
	// tells says that replicas tell each other which lists they serve.
	tells bool
}

// change is one change of a server's list.
type change struct {
	at     time.Duration
	server int
}

// figures are what changes have caused.
type figures struct {
	// notified is what servers have sent, lists which requests for a page they got.
	notified, lists int
	// commands is what the store was asked, of which published were messages to all replicas; delivered is how many of these it sent on.
	commands, published, delivered int
	// told is what clients were sent, clientLists which requests for a page they made.
	told, clientLists int
	// peaks are the most in one second: of requests to servers, of commands, of notifications to clients.
	peakLists, peakCommands, peakTold int
	// latencies are the times from a change to each client's notification, in order, but for those that only repeat one.
	latencies []time.Duration
}

// event is what happens at a time. Of those at the same time, the first that was planned comes first.
type event struct {
	at    time.Duration
	order int
	do    func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(e any)   { *a = append(*a, e.(event)) } //nolint:forcetypeassert // heap.Push is called below only
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// model is a fleet at a time.
type model struct {
	fleet
	figures

	random *rand.Rand
	now    time.Duration
	agenda agenda
	order  int

	// changedAt are the times of each server's changes: the version of its list is their number.
	changedAt [][]time.Duration
	endpoints [][]endpoint   // by replica and server
	stored    []int          // the version of each server's list in the store
	announcer []announcer    // by replica
	clients   [][][]listener // by replica and team
	perSecond struct{ lists, commands, told map[time.Duration]int }
}

// endpoint is a replica's side of a server.
type endpoint struct {
	listing, dirty bool
	quietUntil     time.Duration
	// has is the version of the list that is served, announced that of which clients were told.
	has, announced int
	// heard is the version that another replica has said it serves, at heardAt.
	heard   int
	heardAt time.Duration
}

// announcer tells a replica's clients.
type announcer struct {
	settling bool
	changed  []int // servers
}

// again stands for the time of a change of which a client has been told.
const again time.Duration = -1

// listener is a client.
type listener struct {
	free    time.Duration // when it may be told again
	pending bool
	since   time.Duration // the oldest change that it is told of next
}

// simulate returns what changes cause in a fleet. The same seed gives the same figures.
func simulate(f fleet, seed uint64, changes []change) figures {
	m := &model{
		fleet: f, random: rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // it has to be repeatable
		changedAt: make([][]time.Duration, f.servers), stored: make([]int, f.servers), announcer: make([]announcer, f.replicas),
	}
	m.perSecond.lists, m.perSecond.commands, m.perSecond.told = map[time.Duration]int{}, map[time.Duration]int{}, map[time.Duration]int{}
	for range f.replicas {
		m.endpoints = append(m.endpoints, make([]endpoint, f.servers))
		m.clients = append(m.clients, make([][]listener, f.teams))
	}
	for i := range f.listeners {
		replica, team := i%f.replicas, i/f.replicas%f.teams
		m.clients[replica][team] = append(m.clients[replica][team], listener{})
	}
	for _, c := range changes {
		m.plan(c.at, func() { m.change(c.server) })
	}
	for len(m.agenda) > 0 {
		next := heap.Pop(&m.agenda).(event) //nolint:forcetypeassert // see Push
		m.now = next.at
		next.do()
	}
	m.peakLists, m.peakCommands, m.peakTold = most(m.perSecond.lists), most(m.perSecond.commands), most(m.perSecond.told)
	slices.Sort(m.latencies)
	return m.figures
}

func most(perSecond map[time.Duration]int) (peak int) {
	for _, n := range perSecond {
		peak = max(peak, n)
	}
	return peak
}

func (m *model) plan(at time.Duration, do func()) {
	m.order++
	heap.Push(&m.agenda, event{at, m.order, do})
}

func (m *model) after(d time.Duration, do func()) { m.plan(m.now+d, do) }

// between returns a random time.
func (m *model) between(least, most time.Duration) time.Duration {
	return least + time.Duration(m.random.Int64N(int64(most-least)))
}

// hop is how long a message takes.
func (m *model) hop() time.Duration { return m.between(100*time.Microsecond, time.Millisecond) }

// admission is how long a replica takes to serve a list that it has.
func (m *model) admission() time.Duration {
	if m.late > 0 && m.random.IntN(m.late) == 0 {
		return m.between(50*time.Millisecond, 250*time.Millisecond)
	}
	return m.between(time.Millisecond, 4*time.Millisecond)
}

func (m *model) command(n int) {
	m.commands += n
	m.perSecond.commands[m.now/time.Second] += n
}

// publish has the store send a message to all replicas, with what each does then.
func (m *model) publish(received func(replica int)) {
	m.command(1)
	m.published++
	m.delivered += m.replicas
	for r := range m.replicas {
		m.after(m.hop()+m.hop(), func() { received(r) })
	}
}

// change changes a server's list, of which it tells who watches it.
func (m *model) change(server int) {
	m.changedAt[server] = append(m.changedAt[server], m.now)
	for r := range m.replicas {
		if m.shared && r != server%m.replicas { // another one holds the lease
			continue
		}
		m.notified++
		m.after(m.hop(), func() { m.hearServer(r, server) })
	}
}

// hearServer has a replica list a server, now or when it may.
func (m *model) hearServer(replica, server int) {
	e := &m.endpoints[replica][server]
	if e.listing || m.now < e.quietUntil {
		e.dirty = true
		return
	}
	m.list(replica, server)
}

func (m *model) list(replica, server int) {
	e := &m.endpoints[replica][server]
	e.listing, e.dirty = true, false
	m.lists += m.pages
	m.perSecond.lists[m.now/time.Second] += m.pages
	took := time.Duration(0)
	for range m.pages {
		took += m.hop() + m.between(m.answer/5, m.answer) + m.hop()
	}
	version := len(m.changedAt[server])
	m.after(took, func() {
		e.listing, e.quietUntil = false, m.now+quietTime
		m.after(quietTime, func() {
			if e.dirty {
				m.list(replica, server)
			}
		})
		if m.shared {
			m.put(replica, server, version)
		} else {
			m.serve(replica, server, version)
		}
	})
}

// pieces is in how many pieces a list goes to the store and from it.
func (m *model) pieces() int { return max(1, (m.listSize+pieceSize-1)/pieceSize) }

// put gives the other replicas a list, by the store.
func (m *model) put(holder, server, version int) {
	m.command(1 + m.pieces() + 1) // there is room for it, it is sent, and a script makes it the list
	m.stored[server] = version
	m.command(1) // what has happened is noted
	m.serve(holder, server, version)
	m.publish(func(replica int) {
		if replica == holder {
			return
		}
		m.command(1) // it looks at the lease
		m.after(m.hop()+m.hop(), func() {
			m.command(m.pieces())
			latest := m.stored[server]
			m.after(m.hop()+m.hop(), func() { m.serve(replica, server, latest) })
		})
	})
}

// serve has a replica serve a list: it tells the others, unless one has just said the same, and later its clients.
func (m *model) serve(replica, server, version int) {
	if m.endpoints[replica][server].has >= version {
		return
	}
	m.after(m.admission(), func() {
		e := &m.endpoints[replica][server]
		if e.has >= version {
			return
		}
		e.has = version
		if m.tells && (e.heard != version || m.now-e.heardAt >= settleTime/2) {
			m.publish(func(other int) {
				if other != replica {
					m.hearReplica(other, server, version)
				}
			})
		}
		m.settle(replica, server)
	})
}

// settle has a replica tell its clients of a change, a little later than it serves it where there are others.
func (m *model) settle(replica, server int) {
	a := &m.announcer[replica]
	a.changed = append(a.changed, server)
	if a.settling {
		return
	}
	wait := time.Duration(0)
	if m.tells {
		wait = settleTime
	}
	a.settling = true
	m.after(wait, func() {
		changed := a.changed
		a.changed, a.settling = nil, false
		for _, s := range changed {
			e := &m.endpoints[replica][s]
			if e.announced < e.has {
				m.wake(replica, s, m.changedAt[s][e.announced])
				e.announced = e.has
			}
		}
	})
}

// hearReplica has a replica tell its clients again if it told them before the other one had the list.
func (m *model) hearReplica(replica, server, version int) {
	e := &m.endpoints[replica][server]
	e.heard, e.heardAt = version, m.now
	if e.announced == version && e.has == version {
		m.wake(replica, server, again)
	}
}

// wake tells the clients of a replica that see a server, each now or when it may.
func (m *model) wake(replica, server int, since time.Duration) {
	clients := m.clients[replica][server%m.teams]
	for i := range clients {
		l := &clients[i]
		switch {
		case l.pending && l.since == again:
			l.since = since
		case l.pending:
		case m.now >= l.free:
			m.tell(l, since)
		default:
			l.pending, l.since = true, since
			m.plan(l.free, func() {
				l.pending = false
				m.tell(l, l.since)
			})
		}
	}
}

func (m *model) tell(l *listener, since time.Duration) {
	m.told++
	m.perSecond.told[m.now/time.Second]++
	m.clientLists += m.clientPages
	if since != again {
		m.latencies = append(m.latencies, m.now-since)
	}
	l.free = m.now + minPause
}

// standing are messages per second while nothing changes.
type standing struct{ streams, signs, commands float64 }

// standing returns how many streams of changes the servers have in all, and how many signs of life and commands of the store there are in
// a second.
func (f fleet) standing() standing {
	replicas, servers := float64(f.replicas), float64(f.servers)
	s := standing{
		streams: replicas * servers, signs: replicas * servers / maxSilence.Seconds(),
		commands: replicas * (1/probeInterval.Seconds() + 1/readInterval.Seconds()),
	}
	if f.shared {
		s.streams = servers
		s.commands += replicas/indexLook.Seconds() + servers*(1/leaseRenewal.Seconds()+(replicas-1)/leaseLook.Seconds())
	}
	return s
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// op is one operation, as data: who did what where and when, and what became of it.
type op struct {
	// Client is 0 for what the rig did.
	Client int
	// Name is "list", "told" of a change, or "stream" once that has ended; of the rig "change" of the
	// list, the name of a fault that begins, or "healed".
	Name string
	// At is the number of the endpoint.
	At int
	// Sent and Received are when it began and ended, since the begin of the history.
	Sent     time.Duration
	Received time.Duration
	// Mark is the newest change that is in a list.
	Mark  int
	Error string
}

// history is operations in the order in which they ended. What is below reads histories, and needs
// neither clients nor gateways.
type history []op

// stale returns the clients whose last list at a time is older than a mark.
func (h history) stale(mark int, at time.Duration) (clients []int) {
	held := map[int]int{}
	for _, o := range h {
		switch {
		case o.Client == 0 || o.Received > at:
		case o.listed():
			held[o.Client] = o.Mark
		default:
			held[o.Client] += 0 // who has listed nothing is stale, too
		}
	}
	for client, newest := range held {
		if newest < mark {
			clients = append(clients, client)
		}
	}
	slices.Sort(clients)
	return clients
}

// caughtUp returns when the last of the clients that have listed a mark did so first.
func (h history) caughtUp(mark int) (last time.Duration) {
	seen := map[int]bool{}
	for _, o := range h {
		if o.listed() && o.Mark >= mark && !seen[o.Client] {
			seen[o.Client], last = true, o.Received
		}
	}
	return last
}

// since returns what ended at a time or later.
func (h history) since(begin time.Duration) history {
	i := slices.IndexFunc(h, func(o op) bool { return o.Received >= begin })
	return h[max(i, 0):]
}

func (o op) listed() bool { return o.Name == "list" && o.Error == "" }

// unneeded returns the clients that, from a time on, were told of a change and then listed what they had
// listed before.
func (h history) unneeded(from time.Duration) (clients []int) {
	type client struct {
		mark int
		told bool
	}
	all := map[int]client{}
	for _, o := range h {
		c := all[o.Client]
		switch {
		case o.Name == "told":
			c.told = o.Received >= from
		case o.listed():
			if c.told && o.Mark == c.mark && !slices.Contains(clients, o.Client) {
				clients = append(clients, o.Client)
			}
			c = client{mark: o.Mark}
		}
		all[o.Client] = c
	}
	return clients
}

// failed returns the operations with an error.
func (h history) failed() (all history) {
	for _, o := range h {
		if o.Error != "" {
			all = append(all, o)
		}
	}
	return all
}

// of returns what one client and the rig did, an operation each line.
func (h history) of(client int) string {
	var text strings.Builder
	for _, o := range h {
		if o.Client == 0 || o.Client == client {
			fmt.Fprintf(&text, "%9.3f %9.3f  client %d: %s at %d: %d %s\n", o.Sent.Seconds(),
				o.Received.Seconds(), o.Client, o.Name, o.At, o.Mark, o.Error)
		}
	}
	return text.String()
}

package gateway

import (
	"context"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/snapshot"
)

// topicLists is what replicas tell each other under which lists they serve.
const topicLists = "lists"

// maxToldLists bounds the lists of one message.
const maxToldLists = 1000

// tellLists tells the other replicas which lists this one serves from now on. Before it is ready, load balancers send it no clients.
func (g *Gateway) tellLists(changes []snapshot.ListChange) {
	if !g.ready.Load() && !g.Ready().Ready {
		return
	}
	for len(changes) > 0 {
		n := min(len(changes), maxToldLists)
		g.cluster.Tell("", topicLists, encodeLists(changes[:n]))
		changes = changes[n:]
	}
}

// hearLists takes what another replica tells.
func (g *Gateway) hearLists(_ context.Context, message []byte) []byte {
	if changes, ok := decodeLists(message); ok {
		g.publisher.HearReplica(changes)
	}
	return nil
}

// encodeLists returns, for each list, the length of the label in a byte, the label, and the content. Lists whose label is longer are left
// out, as no configuration has them.
func encodeLists(changes []snapshot.ListChange) (message []byte) {
	for _, c := range changes {
		if len(c.Upstream) <= 0xff {
			message = append(append(append(message, byte(len(c.Upstream))), c.Upstream...), c.Content[:]...)
		}
	}
	return message
}

func decodeLists(message []byte) (changes []snapshot.ListChange, ok bool) {
	for len(message) > 0 {
		size := 1 + int(message[0])
		end := size + len(catalog.Fingerprint{})
		if len(message) < end {
			return nil, false
		}
		changes = append(changes, snapshot.ListChange{Upstream: string(message[1:size]), Content: catalog.Fingerprint(message[size:end])})
		message = message[end:]
	}
	return changes, true
}

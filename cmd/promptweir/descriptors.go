package main

import "github.com/promptweir/promptweir/config"

const (
	// adminPlaces bounds the connections of the admin listener. Beyond it the oldest gives way.
	adminPlaces = 32
	// ownDescriptors is how many descriptors the process keeps for itself: the admin listener, files, and connections that are
	// about to close.
	ownDescriptors = adminPlaces + 64
	// childDescriptors is how many an upstream with a command takes: its pipes, and a handle of the process.
	childDescriptors = 4
	// placeMemory is what a connection takes with a request in flight, in bytes. Connections may take half of the memory.
	placeMemory = 32 << 10
	// unlimitedDescriptors stands for no limit.
	unlimitedDescriptors = 1 << 20
)

// placesOf returns how many connections and streams clients may have under a limit of descriptors and with an amount of memory in
// bytes, 0 if that is not known. The upstreams get the descriptors that they may need, from a quarter of the limit to half.
func placesOf(limit int, memory int64, upstreams []config.Upstream) int {
	needed := ownDescriptors
	for i := range upstreams {
		if needed += childDescriptors; len(upstreams[i].Command) == 0 {
			needed += upstreams[i].Concurrency
		}
	}
	places := limit - min(max(needed, limit/4), limit/2)
	if memory > 0 {
		places = min(places, int(memory/2/placeMemory))
	}
	return max(places, 1)
}

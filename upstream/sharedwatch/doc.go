// Package sharedwatch answers: what do an endpoint and the store say to each other about a watch that replicas share?
//
// Package upstream decides by it, and the gateway's package cluster says it, neither of which imports the other. It has values only; what is
// done with them is the interface upstream.SharedWatch.
package sharedwatch

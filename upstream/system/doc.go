// Package system contains functions that only some operating systems support. They signal a child
// process and its descendants, kill the child when the gateway dies, hide the gateway's memory from
// the child, close a connection whose bytes are not acknowledged, and check a connection for input.
package system

// maxDescriptors is the maximum result of DescriptorLimit, also for a system without a limit.
const maxDescriptors = 1 << 20

// Package system has functions that only some operating systems support. They signal a child
// process with its descendants, end it with the gateway, hide the gateway's memory from it, close a
// connection whose bytes are not acknowledged, and look for input on a connection.
package system

// maxDescriptors is the result of DescriptorLimit if there is no limit, or a higher one.
const maxDescriptors = 1 << 20

// Package system has what only some operating systems can do: signal a child process with all of
// its descendants, let it die with the gateway, hide the gateway's memory from it, notice a connection
// whose bytes nobody acknowledges, and see whether something has arrived on one.
package system

// maxDescriptors stands for no limit.
const maxDescriptors = 1 << 20

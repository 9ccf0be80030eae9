// Package system has what only some operating systems can do: signal a child process with all of
// its descendants, let it die with the gateway, hide the gateway's memory from it, and notice a
// connection whose bytes nobody acknowledges.
package system

// maxDescriptors stands for no limit.
const maxDescriptors = 1 << 20

// Package system has what only some operating systems can do for a client: signal a child process with all
// of its descendants, let it die with the gateway, and notice a connection whose bytes nobody acknowledges.
package system

// Package clustertest runs a store in a test: the program valkey-server or redis-server where one
// is installed, and otherwise a stand-in within the test's process. Only tests may import this
// package.
package clustertest

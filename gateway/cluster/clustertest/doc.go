// Package clustertest runs a real store in a test: the program valkey-server or redis-server, whichever is installed. Tests that
// use it have the build tag store. Only tests may import this package.
package clustertest

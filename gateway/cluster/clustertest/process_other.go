//go:build !unix

package clustertest

import (
	"errors"
	"testing"
)

// process stands in for the program of a store, which tests pause by a Unix signal.
type process struct {
	program string
	args    []string
}

func (*process) start(testing.TB, int) error { return errors.ErrUnsupported }
func (*process) kill()                       {}
func (*process) pause()                      {}
func (*process) resume()                     {}

func find() (string, error) {
	return "", errors.New("needs a Unix system, and valkey-server or redis-server")
}

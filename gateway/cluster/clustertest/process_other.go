//go:build !unix

package clustertest

import (
	"errors"
	"testing"
)

// process replaces the type for Unix. It never starts a program, because pausing one needs Unix signals.
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

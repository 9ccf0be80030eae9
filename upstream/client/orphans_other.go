//go:build !linux

package client

import "os/exec"

// family is the children of this process. On other systems than Linux, no process can adopt the orphans of its children, and those
// that have left the process group stay.
type family struct{}

var children family //nolint:gochecknoglobals // see orphans_linux.go

func (family) start(command *exec.Cmd) (id string, err error) { return "", command.Start() }

func (family) ended(*exec.Cmd, string) {}

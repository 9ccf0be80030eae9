//go:build !linux

package client

import "syscall"

// setUserTimeout does nothing: other systems have no such option, or another for each of them.
func setUserTimeout(syscall.RawConn) error { return nil }

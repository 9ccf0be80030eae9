//go:build !linux

package client

import "syscall"

// dieWithParent does nothing: other systems have no such signal, and a child ends with its stdin.
func dieWithParent(*syscall.SysProcAttr) {}

// setUserTimeout does nothing: other systems have no such option, or another for each of them.
func setUserTimeout(syscall.RawConn) error { return nil }

//go:build unix

package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// pipeReader empties a pipe.
type pipeReader struct {
	file  *os.File
	group sync.WaitGroup
}

// hangingPipe returns the path of a pipe that is full.
func hangingPipe(t *testing.T) (path string, reader *pipeReader) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := syscall.Write(fd, make([]byte, 4096)); err != nil {
			break // it is full
		}
	}
	reader = &pipeReader{file: os.NewFile(uintptr(fd), path)}
	t.Cleanup(func() {
		_ = reader.file.Close()
		reader.group.Wait()
	})
	return path, reader
}

// drain empties the pipe until the test ends.
func (r *pipeReader) drain() {
	r.group.Go(func() { _, _ = io.Copy(io.Discard, r.file) })
}

// A pipe that nobody empties stands for a disk that hangs.
func TestAudit_HangingDisk(t *testing.T) {
	for _, required := range []bool{false, true} {
		t.Run(fmt.Sprint("required = ", required), func(t *testing.T) {
			path, reader := hangingPipe(t)
			p := gatewaytest.NewPeer(t, "up", "review")
			s, log := serveAudited(t, auditedConfig(t, path, fmt.Sprint("required = ", required), p))
			ann := s.Modern("ann")
			get := func() gatewaytest.Response { return ann.Call("prompts/get", gatewaytest.GetParams("up.review")) }
			if !required {
				for range 3 {
					get().Want(t, http.StatusOK, `"from up"`)
				}
				upstreamtest.Eventually(t, "the problem is known", func() bool { return s.Ready().AuditProblem != "" })
				get().Want(t, http.StatusOK, `"from up"`)
				if !s.Ready().Ready {
					t.Error("not ready although the log is not required")
				}
			} else {
				get().Want(t, http.StatusOK, `"reason":"audit"`)
				get().Want(t, http.StatusOK, `"reason":"audit"`)
				if n := len(p.Calls("prompts/get")); n != 1 || s.Ready().Ready {
					t.Errorf("%d gets at the server, ready = %v", n, s.Ready().Ready)
				}
			}
			reader.drain()
			upstreamtest.Eventually(t, "the log is written again", func() bool { return log.State().Problem == nil })
			get().Want(t, http.StatusOK, `"from up"`)
			log.Close()
		})
	}
}

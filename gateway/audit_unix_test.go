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
	"time"

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

// Without required, a full disk costs lines and no client anything. /dev/full is one.
func TestAudit_FullDiskThatIsNotRequired(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	s, log := serveAudited(t, auditedConfig(t, path, "required = false", gatewaytest.NewPeer(t, "up", "review")))
	ann := s.Modern("ann")
	get := func() {
		ann.Call("prompts/get", gatewaytest.GetParams("up.review")).Want(t, http.StatusOK, `"from up"`)
	}
	get()
	upstreamtest.Eventually(t, "the problem is known", func() bool { return log.State().Problem != nil })
	get()
	gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Want(t, http.StatusOK, `"ready": true`, `no space left on device`)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.ReopenAudit()
	upstreamtest.Eventually(t, "what waited is written", func() bool { return log.State().Written == 2 })
	get()
	log.Close()
	if lines := auditLines(t, path); len(lines) != 3 {
		t.Errorf("recorded %q, want the three gets", lines)
	}
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
				begun := time.Now()
				get().Want(t, http.StatusOK, `"code":-32603`, `"reason":"audit"`)
				if took := time.Since(begun); took < 900*time.Millisecond || took > time.Minute {
					t.Errorf("the line had %v to be written, want a second", took)
				}
				get().Want(t, http.StatusOK, `"code":-32603`, `"reason":"audit"`)
				upstreamtest.Equal(t, 1, len(p.Calls("prompts/get")), "gets at the server")
				gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Want(t, http.StatusServiceUnavailable, `"audit_problem": "the write takes longer than 1s"`)
			}
			reader.drain()
			upstreamtest.Eventually(t, "the log is written again", func() bool { return log.State().Problem == nil })
			get().Want(t, http.StatusOK, `"from up"`)
			gatewaytest.Send(t, http.MethodGet, s.AdminURL+"/readyz", "", nil).Want(t, http.StatusOK)
			log.Close()
		})
	}
}

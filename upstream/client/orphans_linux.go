package client

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The gateway adopts the processes that a child leaves behind in a session of their own, where no signal to the child's process
// group reaches them: as a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) it becomes the parent of every descendant whose own
// parent has exited. A variable in their environment tells whose they are. One that has cleared its environment stays.
//
// If the gateway itself is killed, its children are with it (PR_SET_PDEATHSIG). Most would exit by themselves, because their
// stdin ends, but not those that hang. What they have started gets no signal.

const (
	// childVariable names a child in the environment of its descendants.
	childVariable = "PROMPTWEIR_CHILD"
	// orphanTimeout bounds how long the orphans of a child are looked for, since new ones can be started meanwhile. On a machine that is
	// busy they are looked for orphanPasses times all the same: what a killed one has started is an orphan only then.
	orphanTimeout = 2 * time.Second
	orphanPasses  = 20
	// orphanPause is how long a killed process gets to exit before it is looked for again, and reapPause how long a dead one may
	// stay before it is reaped, so that a child that starts many costs little.
	orphanPause = 2 * time.Millisecond
	reapPause   = 100 * time.Millisecond
)

// family is the children of this process.
type family struct {
	// mu guards what follows. It is held while a child is started, which is short unless its file system hangs: a child of this
	// process that is not in started is then surely an orphan, for which package exec does not wait.
	mu      sync.Mutex
	started map[int]bool
	reaper  *reaper // runs while a child does
	forker  *forker // as well
}

// children are those of the process, whoever starts them.
var children = &family{started: map[int]bool{}} //nolint:gochecknoglobals // as are the processes themselves

// start starts a child, and returns what its descendants are known by.
func (f *family) start(command *exec.Cmd) (id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return "", os.NewSyscallError("prctl", err)
	}
	id = childVariable + "=" + rand.Text()
	command.Env = append(command.Env, id)
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if f.forker == nil {
		f.forker = startForker()
	}
	if err := f.forker.start(command); err != nil {
		f.endLocked()
		return "", err
	}
	f.started[command.Process.Pid] = true
	if f.reaper == nil {
		f.reaper = startReaper(f)
	}
	return id, nil
}

// ended ends what a child has left behind. Call it after the child has been waited for.
func (f *family) ended(command *exec.Cmd, id string) {
	f.mu.Lock()
	delete(f.started, command.Process.Pid)
	f.mu.Unlock()
	deadline := time.Now().Add(orphanTimeout)
	for pass := 1; f.killOrphans(id) && (pass < orphanPasses || time.Now().Before(deadline)); pass++ {
		time.Sleep(orphanPause) // what it has started itself is an orphan once it has exited
	}
	f.mu.Lock()
	last := f.endLocked()
	f.mu.Unlock()
	if last != nil {
		last.stop() // without the lock, which it may wait for
	}
}

// endLocked ends what runs while a child does, once there is none. The reaper, which may be nil, is still to be stopped.
func (f *family) endLocked() (last *reaper) {
	if len(f.started) > 0 {
		return nil
	}
	f.forker.stop()
	last, f.forker, f.reaper = f.reaper, nil, nil
	return last
}

// forker starts children from one thread: the kernel sends the signal for the death of a parent when the thread ends that started
// the child, and Go ends threads at any time.
type forker struct {
	commands chan *exec.Cmd
	started  chan error
}

func startForker() *forker {
	f := &forker{make(chan *exec.Cmd), make(chan error)}
	go func() {
		defer close(f.started)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for command := range f.commands {
			f.started <- command.Start()
		}
	}()
	return f
}

func (f *forker) start(command *exec.Cmd) error {
	f.commands <- command
	return <-f.started
}

// stop waits until the thread may end.
func (f *forker) stop() {
	if f == nil {
		return
	}
	close(f.commands)
	for range f.started { // until it is closed
	}
}

// killOrphans kills and reaps the orphans of a child, and reports whether there were any.
func (f *family) killOrphans(id string) (found bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.orphansLocked() {
		switch {
		case o.isDead:
			found = true // perhaps one that was just killed, whose own children are orphans now
			reap(o.pid)
		case o.has(id):
			found = true
			_ = syscall.Kill(o.pid, syscall.SIGKILL) // nobody else reaps it, so that it is still the same process
			reap(o.pid)
		}
	}
	return found
}

// reap waits for an orphan that has exited. Nobody else waits for it.
func reap(pid int) {
	_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
}

// reaper reaps orphans that exit by themselves, which would stay as zombies.
type reaper struct{ done, stopped chan struct{} }

func startReaper(f *family) *reaper {
	r := &reaper{done: make(chan struct{}), stopped: make(chan struct{})}
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD)
	go func() {
		defer close(r.stopped)
		defer signal.Stop(exits)
		for {
			select {
			case <-exits:
			case <-r.done:
				return
			}
			f.reapDead()
			select {
			case <-time.After(reapPause):
			case <-r.done:
				return
			}
		}
	}()
	return r
}

func (r *reaper) stop() {
	close(r.done)
	<-r.stopped
}

func (f *family) reapDead() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.orphansLocked() {
		if o.isDead {
			reap(o.pid)
		}
	}
}

// orphan is a child of this process that it has not started.
type orphan struct {
	pid    int
	isDead bool
}

// orphansLocked returns the present orphans. Those in the process group of this process are left out: other packages may have
// started them, and wait for them.
func (f *family) orphansLocked() (orphans []orphan) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil // impossible: the pattern is well-formed
	}
	self, group := os.Getpid(), syscall.Getpgrp()
	for _, path := range stats {
		s, ok := readStat(path)
		if ok && s.parent == self && s.group != group && !f.started[s.pid] {
			orphans = append(orphans, orphan{s.pid, s.state == "Z" || s.state == "X"})
		}
	}
	return orphans
}

// has reports whether a process has a variable in its environment.
func (o orphan) has(variable string) bool {
	environment, err := os.ReadFile("/proc/" + strconv.Itoa(o.pid) + "/environ")
	return err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(v []byte) bool { return string(v) == variable })
}

// stat is the part of /proc/PID/stat that matters here (proc_pid_stat(5)).
type stat struct {
	pid, parent, group int
	state              string
}

func readStat(path string) (s stat, ok bool) {
	content, err := os.ReadFile(path)
	if err != nil { // it has exited and was waited for
		return stat{}, false
	}
	// The second field is the program's name in parentheses, which may have spaces and parentheses itself.
	before, rest := bytes.IndexByte(content, ' '), bytes.LastIndexByte(content, ')')
	if before < 0 || rest < 0 {
		return stat{}, false
	}
	fields := strings.Fields(string(content[rest+1:]))
	if len(fields) < 3 {
		return stat{}, false
	}
	var errs [3]error
	s.pid, errs[0] = strconv.Atoi(string(content[:before]))
	s.parent, errs[1] = strconv.Atoi(fields[1])
	s.group, errs[2] = strconv.Atoi(fields[2])
	s.state = fields[0]
	return s, errors.Join(errs[:]...) == nil
}

package edge

import (
	"os"
	"time"
)

// probe is a pipe of the process to itself. A byte that is written to it is read when all that had
// arrived before has been looked at: the runtime asks the kernel for what has arrived when it has
// nothing else to do, and gets it in the order of arrival.
//
// So the probe sees what no metric of the runtime counts: requests and responses that have arrived
// in the kernel, and that nobody has looked at yet.
type probe struct {
	from, to *os.File
	// read receives a value for each byte that was read. It is closed with the pipe.
	read chan struct{}
}

func newProbe() (*probe, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &probe{from, to, make(chan struct{})}
	go p.follow()
	return p, nil
}

// follow reads until the pipe is closed. It has to wait for the byte before that is written: a byte
// that is there already would be read without asking what else has arrived.
func (p *probe) follow() {
	defer close(p.read)
	one := make([]byte, 1)
	for {
		if _, err := p.from.Read(one); err != nil {
			return
		}
		p.read <- struct{}{}
	}
}

// wait returns when what has arrived so far has been looked at, with how long that took.
func (p *probe) wait() (time.Duration, error) {
	begun := time.Now()
	if _, err := p.to.Write([]byte{0}); err != nil {
		return 0, err
	}
	if _, open := <-p.read; !open {
		return 0, os.ErrClosed
	}
	return time.Since(begun), nil
}

// end lets wait fail from now on.
func (p *probe) end() { _ = p.to.Close() } // nothing that was written is lost

// close ends the probe, and waits until its goroutine has ended. To be called when nobody waits.
func (p *probe) close() {
	p.end()
	_ = p.from.Close() // as above
	for range p.read { // until it is closed
	}
}

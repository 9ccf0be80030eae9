package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// glance is how far is looked for either end of a line at once, in bytes.
const glance = 4 << 10

const (
	byteOrderMark = "\ufeff"
	kindMessage   = "message"
)

// event is one of an event stream.
type event struct {
	// kind is its type; empty where the server gives none.
	kind string
	// data may be kept.
	data []byte
}

// isMessage reports whether an event carries a message: others are for keeping the stream alive or resuming it.
func (e event) isMessage() bool {
	return len(e.data) > 0 && (e.kind == "" || e.kind == kindMessage)
}

// eventReader reads an event stream (WHATWG, HTML, "Interpreting an event stream"). The lines of an event stay where
// they were read to, and its data are joined there:
//
//	room  [ …taken │ data: {"jsonrpc":"2.0",⏎data: "method":…│       ]
//	held           └──────────────────────────┴ at ──────────┘
//
// FuzzEvents holds it against another implementation. Its user calls close at the end.
type eventReader struct {
	source io.Reader
	// maxMessage bounds an event with all of its lines, in bytes.
	maxMessage int
	// place goes along with what is read.
	place *bookmark
	// err is why nothing more can be read.
	err error

	// room is what is read into, and held that part of it which begins with the first line of the present event. There
	// may be none as long as nothing is held.
	room *room
	held []byte
	// at is where in held the next line begins, and seen how far that has no end.
	at, seen int
	// opened is set once the first line has been read, which may begin with a byte order mark.
	opened bool
	// returned is set where the last line ended in CR: an LF may belong to it.
	returned bool

	// begun is set where the present event has any field that counts.
	begun    bool
	kind, id string
	// from and to are where in held its data are; from is 0 as long as there are none.
	from, to int
}

func (r *eventReader) close() { r.room.leave() }

// next returns the next event that has a type, data or an id. The error is io.EOF where the stream has ended, and
// another where it did so within an event, which is none then.
func (r *eventReader) next() (event, error) {
	for {
		line, err := r.line()
		switch {
		case err != nil:
			return event{}, err
		case len(line) > 0:
			r.take(line)
		case r.begun:
			return r.complete(), nil
		}
		if !r.begun {
			r.drop()
		}
	}
}

// line returns the next line without its end. It is valid until the next call.
func (r *eventReader) line() ([]byte, error) {
	for {
		r.skipLF()
		end := r.lineEnd()
		switch {
		case end >= r.maxMessage, end < 0 && len(r.held) >= r.maxMessage:
			return nil, tooLarge(r.maxMessage)
		case end >= 0:
			line := r.held[r.at:end]
			r.returned = r.held[end] == '\r'
			r.at, r.seen = end+1, end+1
			if !r.opened {
				line, r.opened = bytes.TrimPrefix(line, []byte(byteOrderMark)), true
			}
			return line, nil
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// skipLF goes past the second half of CR LF.
func (r *eventReader) skipLF() {
	if !r.returned || r.at == len(r.held) {
		return
	}
	r.returned = false
	if r.held[r.at] != '\n' {
		return
	}
	r.at++
	r.seen = r.at
	if !r.begun {
		r.drop()
	}
}

// lineEnd returns where the next line ends, or -1 where it is not there yet. Looking for CR in front of an LF that is
// far away, again for each line, would take long for many short lines.
func (r *eventReader) lineEnd() int {
	for r.seen < len(r.held) {
		part := r.held[r.seen:min(r.seen+glance, len(r.held))]
		end := bytes.IndexByte(part, '\n')
		if end >= 0 {
			part = part[:end]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			end = cr
		}
		if end >= 0 {
			return r.seen + end
		}
		r.seen += len(part)
	}
	return -1
}

// fill reads more.
func (r *eventReader) fill() error {
	switch {
	case errors.Is(r.err, io.EOF) && (r.begun || r.at < len(r.held)):
		return fmt.Errorf("event stream: %w", io.ErrUnexpectedEOF)
	case r.err != nil:
		return r.err
	}
	if len(r.held) == cap(r.held) {
		r.makeRoom()
	}
	n, err := r.source.Read(r.held[len(r.held):cap(r.held)])
	r.held = r.held[:len(r.held)+n]
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("event stream: %w", err)
	}
	r.err = err
	return nil
}

// makeRoom makes as much of it after what is held as that has.
func (r *eventReader) makeRoom() {
	next := r.room
	if size := 2 * len(r.held); next == nil || size > len(next.bytes) {
		next = roomFor(size)
	}
	r.moveTo(next)
}

// shrink leaves a room that a large event was in.
func (r *eventReader) shrink() {
	size := 2 * len(r.held)
	if class, _ := roomClass(size); class < r.room.class {
		r.moveTo(roomFor(size))
	}
}

// moveTo moves what is held to the beginning of a room, which may be the present one.
func (r *eventReader) moveTo(next *room) {
	r.held = append(next.bytes[:0], r.held...)
	if next != r.room {
		r.room.leave()
	}
	r.room = next
}

// drop forgets the lines that have been taken.
func (r *eventReader) drop() {
	r.held = r.held[r.at:]
	r.at, r.seen = 0, 0
}

// take takes a line that is not empty: a field, or a comment, which is a field without a name.
func (r *eventReader) take(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		r.addData(value)
	case "event":
		r.kind = kindOf(value)
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return
		}
		r.id = string(value)
	case "retry":
		r.rest(string(value))
		return
	default:
		return
	}
	r.begun = true
}

// kindOf returns the name of a type, without a copy where it is a message's.
func kindOf(name []byte) string {
	if string(name) == kindMessage {
		return kindMessage
	}
	return string(name)
}

// addData joins a line of data to those before, in front of which stood at least their names.
func (r *eventReader) addData(value []byte) {
	if r.from == 0 {
		r.to = r.at - 1 // where the line ended
		r.from = r.to - len(value)
		return
	}
	r.held[r.to] = '\n'
	r.to += 1 + copy(r.held[r.to+1:], value)
}

// rest notes how long the server wants to be left alone.
func (r *eventReader) rest(milliseconds string) {
	if n, err := strconv.ParseUint(milliseconds, 10, 63); err == nil {
		r.place.retry = time.Duration(min(n, uint64(longestRest.Milliseconds()))) * time.Millisecond
	}
}

// complete returns the present event.
func (r *eventReader) complete() event {
	if r.id != "" {
		r.place.reach(r.id)
	}
	e := event{kind: r.kind, data: bytes.Clone(r.held[r.from:r.to])}
	r.begun, r.kind, r.id, r.from, r.to = false, "", "", 0, 0
	r.drop()
	r.shrink()
	return e
}

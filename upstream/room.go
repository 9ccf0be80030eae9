package upstream

import "sync"

// room is a buffer that is read into, to be left when what is in it has been copied. What is of unknown length costs
// so one copy and the memory that it needs, where growing slices cost several of both.
type room struct {
	bytes []byte
	class int
}

const (
	// smallestRoom is what most messages fit in, in bytes, and roomFactor by how much each larger one exceeds the one before.
	smallestRoom = 4 << 10
	roomFactor   = 4
)

// rooms are those that nobody is in, by class: up to 4 MB each. What is larger comes too seldom to be kept. A room is
// never much larger than what is in it, because that may take long to become more.
var rooms [6]sync.Pool //nolint:gochecknoglobals // a pool

// roomFor returns a room of at least a size.
func roomFor(size int) *room {
	class, fits := roomClass(size)
	if class >= len(rooms) {
		return &room{bytes: make([]byte, size), class: class}
	}
	if kept, ok := rooms[class].Get().(*room); ok {
		return kept
	}
	return &room{bytes: make([]byte, fits), class: class}
}

func roomClass(size int) (class, fits int) {
	for fits = smallestRoom; fits < size; fits *= roomFactor {
		class++
	}
	return class, fits
}

// leave gives the room, which may be nil, to whoever needs one next.
func (r *room) leave() {
	if r != nil && r.class < len(rooms) {
		rooms[r.class].Put(r)
	}
}

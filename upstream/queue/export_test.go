package queue

// Limit returns how many calls may be in flight.
func (q *Queue) Limit() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.limit.slots)
}

package edge

import (
	"container/list"
	"time"
)

// oldestEvery is of how many requests of a client that are admitted one is the oldest.
const oldestEvery = 4

// queue has the requests that wait, fair between the accounts that they cost. The zero value is
// empty. The ledger's mutex guards it.
type queue struct {
	// waiting has all *waiter, the oldest first. The accounts have the same ones, and accounts are
	// those with any, the next first.
	waiting, accounts list.List
}

// waiter is a request that waits.
type waiter struct {
	since   time.Time
	account *account
	// inAll and inAccount are where it is in queue.waiting and in the account's.
	inAll, inAccount *list.Element
	// enter receives whether the request may be served.
	enter chan bool
}

func (q *queue) len() int { return q.waiting.Len() }

// push appends a request that costs an account.
func (q *queue) push(a *account) *waiter {
	if a.waiting.Len() == 0 {
		a.inQueue = q.accounts.PushBack(a)
	}
	w := &waiter{since: time.Now(), account: a, enter: make(chan bool, 1)}
	w.inAll, w.inAccount = q.waiting.PushBack(w), a.waiting.PushBack(w)
	return w
}

// next returns who is admitted next, one account after another. It must not be called while nobody
// waits.
func (q *queue) next() *waiter {
	front := q.accounts.Front()
	a, _ := front.Value.(*account)
	q.accounts.MoveToBack(front)
	if a.entered++; a.entered%oldestEvery == 0 {
		return waiterOf(a.waiting.Front())
	}
	return waiterOf(a.waiting.Back())
}

// oldest returns who has waited for the longest; nil if nobody waits.
func (q *queue) oldest() *waiter { return waiterOf(q.waiting.Front()) }

func (q *queue) remove(w *waiter) {
	q.waiting.Remove(w.inAll)
	if w.account.waiting.Remove(w.inAccount); w.account.waiting.Len() == 0 {
		q.accounts.Remove(w.account.inQueue)
		w.account.inQueue, w.account.entered = nil, 0
	}
}

func waiterOf(e *list.Element) *waiter {
	if e == nil {
		return nil
	}
	w, _ := e.Value.(*waiter)
	return w
}

package snapshot

import "time"

// maxPause bounds the pause after an admission, in multiples of what the admission took. An upstream whose list never stops
// changing thus takes a seventeenth of one processor's time at most.
const maxPause = 16

// pace is when an upstream's next list may be admitted. A list that is quick to admit, or changes now and then, is admitted
// at once. One that keeps changing waits in proportion to what it costs, and longer each time. The zero value waits for
// nothing.
type pace struct {
	ended  time.Time // of the last admission
	factor int       // the pause in multiples of what that took
	pause  time.Duration
}

// due returns when the next admission may begin.
func (p pace) due() time.Time { return p.ended.Add(p.pause) }

// after returns the pace after another admission.
func (p pace) after(began, ended time.Time) pace {
	factor := 1
	if began.Before(p.due().Add(p.pause)) { // it waited for the pause, or came soon after
		factor = min(2*p.factor, maxPause)
	}
	return pace{ended: ended, factor: factor, pause: time.Duration(factor) * ended.Sub(began)}
}

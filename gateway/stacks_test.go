package gateway_test

import (
	"runtime"
	"strings"
)

// goroutinesIn returns the number of goroutines that have all of the functions on their stacks.
func goroutinesIn(functions ...string) (n int) {
	text := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
		all := true
		for _, function := range functions {
			all = all && strings.Contains(stack, function)
		}
		if all {
			n++
		}
	}
	return n
}

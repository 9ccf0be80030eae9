package gateway_test

import (
	"runtime"
	"strings"
)

// stacks returns the stack of each goroutine.
func stacks() []string {
	text := make([]byte, 4<<20)
	return strings.Split(string(text[:runtime.Stack(text, true)]), "\n\n")
}

// goroutinesIn returns the number of goroutines that have all of the functions on their stacks.
func goroutinesIn(functions ...string) (n int) {
	for _, stack := range stacks() {
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

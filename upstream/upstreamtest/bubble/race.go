//go:build race && !go1.27

package bubble

const sharedByTimers = true

package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DefaultMaxBuffered bounds what requests and responses hold at once.
const DefaultMaxBuffered = "25%"

const (
	// minBuffered and maxBuffered bound max_buffered in bytes: a quarter of the least is a prompt of usual size.
	minBuffered, maxBuffered = 1 << 20, 1 << 50
	// maxBufferedPercent leaves memory for everything else.
	maxBufferedPercent = 90
)

// Share is an amount of memory: a number of bytes or, like "25%", a part of what there is.
type Share string

// Of returns the bytes that the share is of a memory. The zero Share is none.
func (s Share) Of(memory int64) int64 {
	if percent, ok := strings.CutSuffix(string(s), "%"); ok {
		n, _ := strconv.ParseInt(percent, 10, 64)
		return memory / 100 * n
	}
	n, _ := strconv.ParseInt(string(s), 10, 64)
	return n
}

func parseShare(s string) (Share, error) {
	number, least, most := s, int64(minBuffered), int64(maxBuffered)
	percent, isPercent := strings.CutSuffix(s, "%")
	if isPercent {
		number, least, most = percent, 1, maxBufferedPercent
	}
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil:
		return "", errors.New(`is neither a part of the memory nor a number of bytes; write it like "25%" or 268435456`)
	case n < least || n > most:
		return "", fmt.Errorf("is not between %d and %d bytes, or 1%% and %d%% of the memory", minBuffered, int64(maxBuffered), maxBufferedPercent)
	}
	return Share(s), nil
}

package wire

import (
	"bufio"
	"errors"
	"io"
)

// lineHead is how much of a line is returned with [ErrLineTooLong], in bytes: enough for [HeadID] to
// find its id.
const lineHead = 1 << 10

// ErrLineTooLong is the error for a line over the limit. [ReadLine] returns the head of the line
// with it, and can then read the next line.
var ErrLineTooLong = errors.New("line too long")

// ReadLine returns the next line of the stdio transport, with its line break, in memory of its own.
// The last line needs no line break.
func ReadLine(reader *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for tooLong := false; ; {
		// ReadSlice, because ReadBytes would read a line of any length into memory.
		part, err := reader.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
		}
		if len(line) > limit {
			tooLong, line = true, line[:min(len(line), lineHead)]
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)):
			return nil, err
		case tooLong:
			return line, ErrLineTooLong
		default:
			return line, nil
		}
	}
}

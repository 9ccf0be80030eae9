package wire

import (
	"bufio"
	"errors"
)

// ErrLineTooLong is the error of a line over the limit. The next line can be read after it.
var ErrLineTooLong = errors.New("line too long")

// ReadLine returns the next line of the stdio transport's framing, its end included, in memory of its own. A last
// line without an end is no message.
func ReadLine(reader *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for tooLong := false; ; {
		part, err := reader.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
		}
		if len(line) > limit {
			tooLong, line = true, nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err
		case tooLong:
			return nil, ErrLineTooLong
		default:
			return line, nil
		}
	}
}

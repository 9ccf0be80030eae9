package wire

import (
	"bufio"
	"errors"
	"io"
)

// lineHead is the length, in bytes, of the part of a long line that [ReadLine] returns.
// [ClaimedIDs] usually finds the id in this part.
const lineHead = 1 << 10

// ErrLineTooLong is the error for a line over the limit. [ReadLine] returns it with the first bytes
// of the line. The next call reads the next line.
var ErrLineTooLong = errors.New("line too long")

// ReadLine returns the next line of the stdio transport, with its line break, in new memory. The last line may lack a line break. limit is
// in bytes.
func ReadLine(reader *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for tooLong := false; ; {
		// Do not use ReadBytes, which would read a line of any length into memory.
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

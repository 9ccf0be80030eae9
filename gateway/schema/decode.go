package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxDepth bounds the levels of a value.
	maxDepth = 32
	// maxNumber bounds the digits of a number and its exponent: an exact 1e999999999 would fill the
	// memory.
	maxNumber = 1000
)

// extent is the size of a value.
type extent struct{ objects, depth int }

// decode parses a JSON value, keeping numbers as they are spelled, and measures it.
func decode(raw jsontext.Value) (value any, size extent, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, size, err
	}
	err = size.measure(value, 0)
	return value, size, err
}

// measure adds a value that is at some depth, and refuses numbers that are too large.
func (e *extent) measure(value any, depth int) error {
	e.depth = max(e.depth, depth)
	switch value := value.(type) {
	case map[string]any:
		e.objects++ // of a schema, each may be a subschema
		for _, member := range value {
			if err := e.measure(member, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range value {
			if err := e.measure(element, depth+1); err != nil {
				return err
			}
		}
	case json.Number:
		return checkNumber(string(value))
	}
	return nil
}

// checkNumber refuses numbers that would take too much memory to compare exactly.
func checkNumber(spelled string) error {
	if len(spelled) > maxNumber {
		return fmt.Errorf("%w: a number has more than %d digits", errTooLarge, maxNumber)
	}
	at := strings.IndexAny(spelled, "eE")
	if at < 0 {
		return nil
	}
	if exponent, err := strconv.Atoi(spelled[at+1:]); err != nil || exponent > maxNumber || exponent < -maxNumber {
		return fmt.Errorf("%w: a number has an exponent larger than %d", errTooLarge, maxNumber)
	}
	return nil
}

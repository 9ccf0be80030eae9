package hclread

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Bounds of an evaluation. They count work rather than time, so that the same file gets the same answer on every machine
// and under any load.
const (
	// maxFileSteps bounds what all expressions of one file may take, besides stepsPerByte for each byte of the file.
	maxFileSteps = 64 << 20
	stepsPerByte = 128
	// maxResult bounds one result, in bytes of text and elementSteps for each other value.
	maxResult = 1 << 20

	// A step is about one byte copied; the costs below are in proportion.
	nodeSteps    = 64 // of an expression, whatever its result
	elementSteps = 16 // of each value
	// maxNumberBits bounds the exponent of a number, which becomes text with all its digits.
	maxNumberBits = 4096
)

// Budget is what an evaluation, or a series of them, may still spend. It is for one goroutine.
type Budget struct {
	steps, left int
	maxResult   int
	// programs are the regular expressions that were compiled beforehand.
	programs map[string]*Program
	// exceeded is why the present evaluation was ended; nothing more of it is evaluated then.
	exceeded *hcl.Diagnostic
}

// NewBudget returns a budget of some steps, with the programs of regular expressions that are known beforehand.
func NewBudget(steps int, programs map[string]*Program) *Budget {
	return &Budget{steps: steps, left: steps, maxResult: maxResult, programs: programs}
}

// fileBudget returns the budget of the expressions in a file.
func fileBudget(content []byte) *Budget {
	b := NewBudget(maxFileSteps+stepsPerByte*len(content), nil)
	b.maxResult = max(b.maxResult, len(content)) // what is written out was read, too
	return b
}

// Spent returns how many steps were taken.
func (b *Budget) Spent() int { return b.steps - b.left }

// spend reports whether that many steps are left, and takes them.
func (b *Budget) spend(steps int, at hcl.Range) bool {
	switch {
	case b.exceeded != nil:
		return false
	case steps > b.left:
		b.left = 0
		b.exceed(at, summaryBudget, fmt.Sprintf("Evaluating it takes more than the %d steps that are allowed here; simplify it.", b.steps))
		return false
	}
	b.left -= steps
	return true
}

// allow reports whether a result of that size may be made.
func (b *Budget) allow(size int, at hcl.Range) bool {
	if b.exceeded == nil && size > b.maxResult {
		b.exceed(at, summaryResult, fmt.Sprintf("The result is larger than %d bytes; an element counts as %d bytes.", b.maxResult, elementSteps))
	}
	return b.exceeded == nil
}

// charge spends what a result costs.
func (b *Budget) charge(v cty.Value, at hcl.Range) bool {
	size := measure(v, b.maxResult)
	return b.spend(size, at) && b.allow(size, at)
}

func (b *Budget) exceed(at hcl.Range, summary, detail string) {
	b.exceeded = &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}
}

// These summaries stand above details that show no values.
const (
	summaryBudget = "Too much to evaluate"
	summaryResult = "Result too large"
)

// measure returns the size of a value, or something larger than most. It takes time in proportion to the smaller of the two.
func measure(v cty.Value, most int) int {
	v, _ = v.Unmark()
	size := elementSteps
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() {
		return size
	}
	switch t := v.Type(); {
	case t == cty.String:
		return max(size, len(v.AsString()))
	case t == cty.Number:
		number := v.AsBigFloat()
		exponent := number.MantExp(nil)
		if number.IsInf() || exponent > maxNumberBits || exponent < -maxNumberBits {
			return most + 1
		}
		return size + max(exponent, -exponent)/3 // about the digits of its text
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next() && size <= most; {
			key, element := it.Element()
			if t.IsMapType() || t.IsObjectType() {
				size += len(key.AsString())
			}
			size += measure(element, most-size)
		}
	}
	return size
}

// shape is the number of values in some values at all depths, and how deep they are nested.
func shape(values []cty.Value) (count, depth int) {
	for _, v := range values {
		v, _ = v.Unmark()
		count++
		if v == cty.NilVal || !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
			continue
		}
		n, d := shape(elements(v))
		count, depth = count+n, max(depth, d+1)
	}
	return count, depth
}

// elements returns the elements of a value that has some.
func elements(v cty.Value) []cty.Value {
	v, _ = v.Unmark()
	if v == cty.NilVal || !v.IsKnown() || v.IsNull() || !v.CanIterateElements() {
		return nil
	}
	var all []cty.Value
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		all = append(all, element)
	}
	return all
}

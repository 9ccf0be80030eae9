package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxSize bounds a schema, in bytes.
	MaxSize = 64 << 10
	// maxSubschemas bounds the objects in a schema, and with them the recursion at each level of a
	// value.
	maxSubschemas = 1000
	// maxValue bounds the size of a checked object or array, in bytes.
	maxValue = 256 << 10
	// budget bounds the time of one compilation and of one check.
	budget = 250 * time.Millisecond
)

// Schema is a compiled schema. It is safe for concurrent use: concurrent checks wait for each other.
type Schema struct {
	root *jsonschema.Schema
	// checking is a mutex for the meter, as a channel so that waiting can be canceled.
	checking chan struct{}
	meter    *meter
}

// location is the URL of every schema. A reference to any other URL is external.
const location = "promptweir:///schema"

// Compile compiles a schema. It rejects references to other documents with [ErrExternal] and unknown
// dialects with [ErrDialect]. The value must have been parsed strictly.
func Compile(raw jsontext.Value) (_ *Schema, err error) {
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("the schema is larger than %d bytes", MaxSize)
	}
	document, size, err := decode(raw)
	switch {
	case err != nil:
		return nil, err
	case size.objects > maxSubschemas:
		return nil, fmt.Errorf("the schema has more than %d subschemas", maxSubschemas)
	}
	// Turn a panic into an error: the compiler is not made for hostile input.
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("the schema cannot be compiled: %v", problem)
		}
	}()
	s := &Schema{checking: make(chan struct{}, 1), meter: &meter{deadline: time.Now().Add(budget)}}
	patterns := &patterns{meter: s.meter}
	var compiled []*jsonschema.Schema
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // loads nothing
	compiler.UseRegexpEngine(patterns.compile)
	// The vocabulary adds no keyword: its Compile is the only hook that the compiler calls for each
	// subschema.
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "urn:promptweir:seen",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			compiled = append(compiled, ctx.Enqueue(nil))
			return nil, nil
		},
	})
	compiler.AssertVocabs()
	if err := compiler.AddResource(location, document); err != nil {
		return nil, err
	}
	if s.root, err = compiler.Compile(location); err != nil {
		return nil, explain(err, document)
	}
	patterns.size = unlimited
	// The schemas may change only after the compilation, in which the compiler reads them.
	for _, sub := range compiled {
		s.meter.watch(sub)
	}
	return s, nil
}

// explain wraps [ErrDialect] or [ErrExternal] if the compiler tried to load another document. It
// returns any other error unchanged.
func explain(err error, document any) error {
	unloaded, ok := errors.AsType[*jsonschema.LoadURLError](err)
	if !ok {
		return err
	}
	object, _ := document.(map[string]any)
	dialect, _ := object["$schema"].(string)
	if strings.TrimSuffix(dialect, "#") == strings.TrimSuffix(unloaded.URL, "#") {
		return fmt.Errorf("%w: %s", ErrDialect, clip(dialect))
	}
	return fmt.Errorf("%w: %s", ErrExternal, clip(unloaded.URL))
}

// Check returns nil if the value satisfies the schema, and an [*Invalid] if it does not. Any other
// error means that the value could not be checked.
func (s *Schema) Check(ctx context.Context, raw jsontext.Value) (err error) {
	// maxMatch and maxNumber bound strings and numbers.
	if kind := raw.Kind(); (kind == '{' || kind == '[') && len(raw) > maxValue {
		return errTooLarge
	}
	value, size, err := decode(raw)
	switch {
	case err != nil:
		return err
	case size.depth > maxDepth:
		return errTooLarge
	}
	// The meter has one deadline, so only one check runs at a time.
	select {
	case s.checking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.checking }()
	s.meter.deadline = time.Now().Add(budget)
	defer func() {
		switch problem := recover(); problem {
		case nil:
		case errTooCostly: // the meter or a pattern stopped the check
			err = errTooCostly
		default:
			err = fmt.Errorf("the value cannot be checked: %v", problem)
		}
	}()
	err = s.root.Validate(value)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return newInvalid(invalid)
	}
	return err
}

// Errors of [Compile] and [Schema.Check].
var (
	// ErrExternal means that the schema refers to another document.
	ErrExternal = errors.New("the schema refers to another document, which is not loaded")
	// ErrDialect means that $schema names an unknown dialect.
	ErrDialect = errors.New("$schema names a dialect that is not supported")
	// errTooLarge means that the value is too large or too deep, or contains a number that is too large.
	errTooLarge = errors.New("the value is too large to be checked")
	// errTooCostly means that the check takes too long.
	errTooCostly = errors.New("the value takes too long to check")
)

// meter ends a check that takes too long. It panics, because the validator takes no context.
// [Schema.Check] recovers.
type meter struct{ deadline time.Time }

// spend panics once the deadline has passed.
func (m *meter) spend() {
	if time.Now().After(m.deadline) {
		panic(errTooCostly)
	}
}

// watch makes each evaluation of a schema check the clock. It replaces the schema by a schema with a
// format and a reference to the original. The validator calls the format before it follows the
// reference.
func (m *meter) watch(s *jsonschema.Schema) {
	was := *s
	// Clear by reflection, so that this also clears keywords of later versions of the library.
	for _, field := range reflect.ValueOf(s).Elem().Fields() {
		if field.CanSet() {
			field.SetZero()
		}
	}
	s.DraftVersion, s.Location = was.DraftVersion, was.Location
	// The anchors stay, because other schemas refer to s by them.
	s.DynamicAnchor, s.RecursiveAnchor = was.DynamicAnchor, was.RecursiveAnchor
	s.Ref = &was
	s.Format = &jsonschema.Format{Name: "promptweir-clock", Validate: func(any) error {
		m.spend()
		return nil
	}}
}

const (
	// maxDepth bounds the depth of a value.
	maxDepth = 32
	// maxNumber bounds the digits and the exponent of a number. Without it, an exact 1e999999999 would
	// exhaust the memory.
	maxNumber = 1000
)

// extent is the number of objects in a value and the depth of its nesting.
type extent struct{ objects, depth int }

// decode parses and measures a JSON value. Numbers become json.Number, to stay exact.
func decode(raw jsontext.Value) (value any, size extent, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, size, err
	}
	err = size.measure(value, 0)
	return value, size, err
}

// measure adds a value at a depth, and returns an error for a number that is too large.
func (e *extent) measure(value any, depth int) error {
	e.depth = max(e.depth, depth)
	switch value := value.(type) {
	case map[string]any:
		e.objects++ // each object of a schema may be a subschema
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

// checkNumber returns an error for a number that would take too much memory to compare exactly.
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

const (
	// maxPattern bounds one pattern, in bytes.
	maxPattern = 2 << 10
	// maxProgram bounds the total size of the programs of all patterns in a schema, in instructions.
	maxProgram = 20_000
	// maxMatch bounds a match, in bytes of text times instructions. The time of a match is proportional
	// to this product.
	maxMatch = 1 << 26
)

// patterns compiles the regular expressions of one schema.
type patterns struct {
	meter *meter
	// size is the number of instructions of all patterns so far. After the compilation of the schema it is
	// set to unlimited, which stops the count: later patterns come from values that are checked against
	// format "regex".
	size int
}

const unlimited = -1

// compile implements [jsonschema.RegexpEngine].
func (p *patterns) compile(expression string) (jsonschema.Regexp, error) {
	if len(expression) > maxPattern {
		return nil, errors.New("the pattern is too long")
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	// Compile twice: regexp.Compile does not reveal the size of its program.
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if p.size != unlimited {
		p.size += len(program.Inst)
	}
	if max(p.size, len(program.Inst)) > maxProgram {
		return nil, errors.New("the schema's patterns are too large together")
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	return &pattern{compiled, len(program.Inst), p.meter}, nil
}

// pattern is a compiled regular expression that panics instead of starting a match that would take too long.
type pattern struct {
	*regexp.Regexp

	size  int
	meter *meter
}

// MatchString implements [jsonschema.Regexp].
func (p *pattern) MatchString(text string) bool {
	p.meter.spend()
	// Bound the work of a match in advance: the meter cannot interrupt it.
	if len(text)*p.size > maxMatch {
		panic(errTooCostly)
	}
	return p.Regexp.MatchString(text)
}

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
	// maxSubschemas bounds the objects in a schema, and so the recursion at each level of a value.
	maxSubschemas = 1000
	// maxValue bounds the size of a checked object or array, in bytes.
	maxValue = 256 << 10
	// budget bounds the time of one check.
	budget = 250 * time.Millisecond
)

// Schema is a compiled schema. It is safe for concurrent use, and checks one value at a time.
type Schema struct {
	root *jsonschema.Schema
	// checking has room for one: it is full while a check runs and uses the meter.
	checking chan struct{}
	meter    *meter
}

// location is the URL of every schema. References to any other URL are external.
const location = "promptweir:///schema"

// Compile compiles a schema from a JSON value that was parsed strictly.
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
	// The compiler is not made for hostile input, so a panic in it becomes an error.
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
	// The vocabulary adds no keyword. It is the only hook that sees each subschema.
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
	// Do this only now: during the compilation, the compiler reads these schemas.
	for _, sub := range compiled {
		s.meter.watch(sub)
	}
	return s, nil
}

// explain turns the compiler's errors for references and dialects into this package's errors.
// Callers branch on them, because such a schema must not count as a schema that allows everything.
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
	// Strings and numbers have their own bounds, maxMatch and maxNumber.
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
	// The meter has one deadline, so only one check runs at a time. Each check is short.
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
		case errTooCostly: // from the meter
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

// The reasons why a schema does not compile, or a value was not checked.
var (
	// ErrExternal means that the schema refers to another document.
	ErrExternal = errors.New("the schema refers to another document, which is not loaded")
	// ErrDialect means that $schema names an unknown dialect.
	ErrDialect = errors.New("$schema names a dialect that is not supported")
	// errTooLarge means that the value is too large or too deep, or has too large numbers.
	errTooLarge = errors.New("the value is too large to be checked")
	// errTooCostly means that the check takes too long.
	errTooCostly = errors.New("the value takes too long to check")
)

// meter ends a check that takes too long with a panic, which [Schema.Check] recovers: the validator
// takes no context.
type meter struct{ deadline time.Time }

// spend panics once the deadline has passed.
func (m *meter) spend() {
	if time.Now().After(m.deadline) {
		panic(errTooCostly)
	}
}

// watch makes each evaluation of a schema look at the clock. It replaces the schema by a schema
// that asserts a format and refers to the original. The validator calls the format before it
// follows the reference.
func (m *meter) watch(s *jsonschema.Schema) {
	was := *s
	// Use reflection, so that keywords of later versions of the library are also cleared.
	for _, field := range reflect.ValueOf(s).Elem().Fields() {
		if field.CanSet() {
			field.SetZero()
		}
	}
	s.DraftVersion, s.Location = was.DraftVersion, was.Location
	// Other schemas refer to it by these fields.
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
	// maxNumber bounds the digits of a number and its exponent: an exact 1e999999999 would fill the
	// memory.
	maxNumber = 1000
)

// extent is the size of a value.
type extent struct{ objects, depth int }

// decode parses a JSON value, keeps the spelling of numbers, and measures it.
func decode(raw jsontext.Value) (value any, size extent, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, size, err
	}
	err = size.measure(value, 0)
	return value, size, err
}

// measure adds a value at a depth, and refuses numbers that are too large.
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

const (
	// maxPattern bounds one pattern, in bytes. maxProgram bounds all compiled patterns of a schema,
	// in instructions.
	maxPattern = 2 << 10
	maxProgram = 20_000
	// maxMatch bounds a match, in bytes times instructions. RE2's running time is proportional to
	// that.
	maxMatch = 1 << 26
)

// patterns compiles the regular expressions of one schema.
type patterns struct {
	meter *meter
	// size is the size of all patterns so far, in instructions. It is unlimited once the schema is
	// compiled: later patterns are values that are checked for being patterns.
	size int
}

const unlimited = -1

// compile is a [jsonschema.RegexpEngine].
func (p *patterns) compile(expression string) (jsonschema.Regexp, error) {
	if len(expression) > maxPattern {
		return nil, errors.New("the pattern is too long")
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	// regexp.Compile below does the same again, but does not reveal the size of the program.
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

// pattern is a compiled regular expression that refuses matches that would take too long.
type pattern struct {
	*regexp.Regexp

	size  int
	meter *meter
}

// MatchString implements [jsonschema.Regexp].
func (p *pattern) MatchString(text string) bool {
	p.meter.spend()
	// A match cannot be interrupted, so the clock alone would not bound it.
	if len(text)*p.size > maxMatch {
		panic(errTooCostly)
	}
	return p.Regexp.MatchString(text)
}

// Package schema answers: does a JSON value satisfy a JSON Schema that a stranger wrote?
//
// The validator is github.com/santhosh-tekuri/jsonschema. What this package adds are bounds, because both the schema,
// which is an upstream's, and the value, which is a client's, may have been made to keep a validator busy for ever.
//
// Promises:
//   - JSON Schema 2020-12, or what $schema names: 2019-09, draft-07, -06 or -04. Whether format is asserted is the
//     dialect's default: not from 2019-09 on.
//   - Nothing is ever loaded, neither from the network nor from a file. What refers to another document does not compile
//     ([ErrExternal]); the meta-schemas of the dialects are built in.
//   - Patterns are RE2's, so that none backtracks. One that RE2 does not know, like a lookahead, does not compile.
//   - Numbers are compared exactly, whatever their size.
//   - [Schema.Check] ends soon after [budget], whatever it was given.
package schema

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxSize bounds a schema, in bytes.
	MaxSize = 64 << 10
	// maxSubschemas bounds the objects in a schema: a recursion is at most so many calls deep on each level of a value.
	maxSubschemas = 1000
	// maxValue bounds an object or array that is checked, in bytes, and maxDepth the levels of it.
	maxValue = 256 << 10
	maxDepth = 32
	// maxNumber bounds the digits of a number, and its exponent: an exact 1e999999999 would fill the memory.
	maxNumber = 1000
	// budget is how long one check may take.
	budget = 250 * time.Millisecond
)

// Why a schema does not compile, or a value was not checked.
var (
	// ErrExternal means that the schema refers to another document.
	ErrExternal = errors.New("it refers to another document, which is not loaded")
	// ErrDialect means that $schema names a dialect that is not known here.
	ErrDialect = errors.New("its $schema is a dialect that is not supported")
	// ErrTooLarge means that the value is larger, or deeper, or has larger numbers, than what is checked.
	ErrTooLarge = errors.New("it is too large to be checked")
	// ErrTooCostly means that it would take too long to check the value.
	ErrTooCostly = errors.New("it takes too long to be checked")
)

// Schema is a compiled schema. It is safe for concurrent use; checks against one schema take turns.
type Schema struct {
	root *jsonschema.Schema
	// turn is held by the check that the meter measures.
	turn  chan struct{}
	meter *meter
}

// location is the schema's address; references to anything but it are external.
const location = "promptweir:///schema"

// Compile makes a schema of a JSON value that was read strictly.
func Compile(raw jsontext.Value) (_ *Schema, err error) {
	if len(raw) > MaxSize {
		return nil, fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	document, size, err := decode(raw)
	switch {
	case err != nil:
		return nil, err
	case size.objects > maxSubschemas:
		return nil, fmt.Errorf("it has more than %d subschemas", maxSubschemas)
	}
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("it cannot be compiled: %v", problem)
		}
	}()
	s := &Schema{turn: make(chan struct{}, 1), meter: &meter{deadline: time.Now().Add(budget)}}
	patterns := &patterns{meter: s.meter}
	var compiled []*jsonschema.Schema
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(patterns.compile)
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{ // not to add one, but to see each schema
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
	for _, sub := range compiled {
		s.meter.watch(sub)
	}
	return s, nil
}

// noLoader refuses to load anything.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, ErrExternal }

// explain names the reasons for which a schema must not be taken for one that allows everything.
func explain(err error, document any) error {
	var unloaded *jsonschema.LoadURLError
	if !errors.As(err, &unloaded) {
		return err
	}
	object, _ := document.(map[string]any)
	if dialect, _ := object["$schema"].(string); strings.TrimSuffix(dialect, "#") == strings.TrimSuffix(unloaded.URL, "#") {
		return fmt.Errorf("%w: %s", ErrDialect, clip(dialect))
	}
	return fmt.Errorf("%w: %s", ErrExternal, clip(unloaded.URL))
}

// meter ends a check that takes too long, by a panic that [Schema.Check] recovers: the validator knows no other way.
type meter struct{ deadline time.Time }

func (m *meter) spend() {
	if time.Now().After(m.deadline) {
		panic(ErrTooCostly)
	}
}

// watch makes each evaluation of a schema look at the clock before anything else. The schema becomes one that refers
// to what it was, and asserts a format, which is the hook.
func (m *meter) watch(s *jsonschema.Schema) {
	was := *s
	for _, field := range reflect.ValueOf(s).Elem().Fields() {
		if field.CanSet() {
			field.SetZero()
		}
	}
	s.DraftVersion, s.Location = was.DraftVersion, was.Location
	s.DynamicAnchor, s.RecursiveAnchor = was.DynamicAnchor, was.RecursiveAnchor // by which others find it
	s.Ref = &was
	s.Format = &jsonschema.Format{Name: "promptweir-clock", Validate: func(any) error {
		m.spend()
		return nil
	}}
}

// Check returns nil where the value satisfies the schema, and an [*Invalid] where it does not. Any other error means
// that it could not be checked.
func (s *Schema) Check(ctx context.Context, raw jsontext.Value) (err error) {
	if kind := raw.Kind(); (kind == '{' || kind == '[') && len(raw) > maxValue {
		return ErrTooLarge
	}
	value, size, err := decode(raw)
	switch {
	case err != nil:
		return err
	case size.depth > maxDepth:
		return ErrTooLarge
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	s.meter.deadline = time.Now().Add(budget)
	defer func() {
		switch problem := recover(); problem {
		case nil:
		case ErrTooCostly:
			err = ErrTooCostly
		default:
			err = fmt.Errorf("it cannot be checked: %v", problem)
		}
	}()
	var invalid *jsonschema.ValidationError
	if err := s.root.Validate(value); errors.As(err, &invalid) {
		return newInvalid(invalid)
	}
	return err
}

// extent is how large a value is.
type extent struct{ objects, depth int }

// decode reads a JSON value with its numbers as they are spelled.
func decode(raw jsontext.Value) (value any, size extent, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, size, err
	}
	err = size.measure(value, 0)
	return value, size, err
}

func (e *extent) measure(value any, depth int) error {
	e.depth = max(e.depth, depth)
	switch value := value.(type) {
	case map[string]any:
		e.objects++
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

// checkNumber refuses numbers that an exact comparison could not afford.
func checkNumber(spelled string) error {
	if len(spelled) > maxNumber {
		return fmt.Errorf("%w: a number has more than %d digits", ErrTooLarge, maxNumber)
	}
	at := strings.IndexAny(spelled, "eE")
	if at < 0 {
		return nil
	}
	if exponent, err := strconv.Atoi(spelled[at+1:]); err != nil || exponent > maxNumber || exponent < -maxNumber {
		return fmt.Errorf("%w: a number has an exponent beyond %d", ErrTooLarge, maxNumber)
	}
	return nil
}

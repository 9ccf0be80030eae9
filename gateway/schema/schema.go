package schema

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// MaxSize bounds a schema, in bytes.
	MaxSize = 64 << 10
	// maxSubschemas bounds the objects in a schema, and thereby the recursion on each level of a
	// value.
	maxSubschemas = 1000
	// maxValue bounds an object or array that is checked, in bytes.
	maxValue = 256 << 10
	// budget is how long one check may take.
	budget = 250 * time.Millisecond
)

// Schema is a compiled schema. It is safe for concurrent use, but checks one value after another.
type Schema struct {
	root *jsonschema.Schema
	// checking holds a value while a check runs, whose deadline the meter has.
	checking chan struct{}
	meter    *meter
}

// location is the URL of every schema. References to any other URL are external.
const location = "promptweir:///schema"

// Compile compiles a schema from a JSON value, which must have been parsed strictly before.
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
	// The compiler is not made for hostile input. A panic in it must not take the gateway down.
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
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(patterns.compile)
	// The vocabulary adds no keyword. It is the only hook through which the compiler shows each
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
	// Only after the compilation, during which the compiler still reads these schemas.
	for _, sub := range compiled {
		s.meter.watch(sub)
	}
	return s, nil
}

// noLoader refuses to load anything.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, ErrExternal }

// explain turns the compiler's errors for references and dialects into ours, on which callers
// branch: such a schema must not be treated as one that allows everything.
func explain(err error, document any) error {
	var unloaded *jsonschema.LoadURLError
	if !errors.As(err, &unloaded) {
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
	// Strings and numbers have bounds of their own, maxMatch and maxNumber.
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
	// The meter has one deadline, so that there is one check at a time. Each is short.
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
		case errTooCostly: // by the meter
			err = errTooCostly
		default:
			err = fmt.Errorf("the value cannot be checked: %v", problem)
		}
	}()
	var invalid *jsonschema.ValidationError
	if err := s.root.Validate(value); errors.As(err, &invalid) {
		return newInvalid(invalid)
	}
	return err
}

// The reasons why a schema does not compile, or why a value was not checked.
var (
	// ErrExternal means that the schema refers to another document.
	ErrExternal = errors.New("the schema refers to another document, which is not loaded")
	// ErrDialect means that $schema names an unknown dialect.
	ErrDialect = errors.New("$schema names a dialect that is not supported")
	// errTooLarge means that the value is too large or too deep, or contains too large numbers.
	errTooLarge = errors.New("the value is too large to be checked")
	// errTooCostly means that checking the value would take too long.
	errTooCostly = errors.New("the value takes too long to check")
)

// meter ends a check that takes too long, by a panic that [Schema.Check] recovers: the validator
// takes no context.
type meter struct{ deadline time.Time }

// spend panics once the deadline has passed.
func (m *meter) spend() {
	if time.Now().After(m.deadline) {
		panic(errTooCostly)
	}
}

// watch makes each evaluation of a schema read the clock first. The schema becomes one that
// refers to its former self and asserts a format, which is the hook: the validator calls it before
// it follows the reference.
func (m *meter) watch(s *jsonschema.Schema) {
	was := *s
	// By reflection, so that keywords which a later version of the library adds are cleared too.
	for _, field := range reflect.ValueOf(s).Elem().Fields() {
		if field.CanSet() {
			field.SetZero()
		}
	}
	s.DraftVersion, s.Location = was.DraftVersion, was.Location
	s.DynamicAnchor, s.RecursiveAnchor = was.DynamicAnchor, was.RecursiveAnchor // other schemas find it by these
	s.Ref = &was
	s.Format = &jsonschema.Format{Name: "promptweir-clock", Validate: func(any) error {
		m.spend()
		return nil
	}}
}

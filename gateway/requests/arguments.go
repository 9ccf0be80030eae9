package requests

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	lru "github.com/hashicorp/golang-lru/v2"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/schema"
	"github.com/promptweir/promptweir/upstream/wire"
)

// A get's arguments are checked against the prompt's definition before they are sent on:
//
//	required and absent                      refused
//	optional and null                        treated as absent, unless its schema allows null
//	without a schema, and not a string       refused: the protocol then allows only strings
//	with a schema                            the value, of any type, must satisfy the schema
//	  that refers to another document,       refused: a schema that cannot be looked up must not count as one that
//	  or is of an unknown dialect              allows everything (2026-07-28, "JSON Schema Usage")
//	  that does not compile for another      logged, and the upstream decides
//	    reason
//	fixed by the configuration               refused: clients may not send it
//	not in the definition                    sent on unchanged, of any type: the upstream decides
//
// Arguments that pass reach the upstream byte for byte. Absent arguments stay absent, unless a prompt block fixes them or gives them a
// default.

const (
	// maxArguments bounds the arguments of one get.
	maxArguments = 1000
	// maxSchemas bounds the cached compiled schemas. Compiling one again takes less than a
	// millisecond.
	maxSchemas = 256
	// maxQuoted bounds the quoted part of an argument's name in a message, in bytes.
	maxQuoted = 200
)

// The values of data.reason for a refused argument.
const (
	argumentMissing    = "missing"
	argumentNoString   = "type"
	argumentInvalid    = "schema"
	argumentUnverified = "unverifiable"
	argumentFixed      = "fixed"
)

// checkArguments refuses a get whose arguments do not match the prompt's definition. It returns the
// arguments without optional ones that are null, unless their schema allows null: some clients
// write null for a field that was left empty.
func (s *schemas) checkArguments(
	ctx context.Context, entry *catalog.Entry, arguments wire.Object,
) (wire.Object, error) {
	sent := make(map[string]jsontext.Value, len(arguments))
	for i := range arguments {
		sent[arguments[i].Name] = arguments[i].Value
	}
	// The definition no longer has the fixed arguments, so the loop below would accept them.
	if err := checkFixed(entry, func(name string) bool { return sent[name] != nil }); err != nil {
		return nil, err
	}
	for i := range entry.Arguments {
		declared := &entry.Arguments[i]
		value, ok := sent[declared.Name]
		isNull := value.Kind() == 'n' && !declared.Required
		switch {
		case ok && declared.Schema != nil:
			err := s.checkSchema(ctx, entry.Name, declared, value)
			if err != nil && !isNull {
				return nil, err
			}
			isNull = err != nil
		case ok && value.Kind() != '"' && !isNull:
			return nil, invalidArgument(declared.Name, argumentNoString, "it must be a string", nil)
		case !ok && declared.Required:
			return nil, wire.NewError(wire.InvalidParams, "Missing required argument: "+wire.Clip(declared.Name, maxQuoted)).
				WithData(argumentData(declared.Name, argumentMissing).JSON())
		}
		if isNull {
			arguments = arguments.Without(func(name string) bool { return name == declared.Name })
		}
	}
	return arguments, nil
}

// readArguments returns the arguments of a get, or nil if it has none.
func readArguments(params wire.Object) (wire.Object, error) {
	value := params.Get("arguments")
	if value == nil {
		return nil, nil
	}
	arguments := wire.Members(value)
	switch {
	case arguments == nil:
		return nil, invalidParams("arguments must be an object")
	case len(arguments) > maxArguments:
		return nil, invalidParams("too many arguments")
	}
	return arguments, nil
}

// checkSchema refuses a value that does not satisfy its argument's schema.
func (s *schemas) checkSchema(
	ctx context.Context, prompt string, declared *catalog.Argument, value jsontext.Value,
) error {
	compiled, err := s.compiled(prompt, declared, func(err error) {
		s.logger.WarnContext(ctx, "argument schema cannot be used", slog.String("prompt", prompt),
			slog.String("argument", wire.Clip(declared.Name, maxQuoted)), slog.Bool("refused", mustRefuse(err)),
			slog.Any("error", err))
	})
	switch {
	case err != nil && mustRefuse(err):
		return invalidArgument(declared.Name, argumentUnverified, "its schema cannot be used: "+err.Error(), nil)
	case err != nil:
		return nil //nolint:nilerr // it was logged, and the upstream decides
	}
	err = compiled.Check(ctx, value)
	if invalid, ok := errors.AsType[*schema.Invalid](err); ok {
		return invalidArgument(declared.Name, argumentInvalid, invalid.Problems[0].String(), invalid.Problems)
	}
	// A check that would take too long is refused like a schema that cannot be looked up, because
	// the value may be invalid.
	if err != nil && ctx.Err() == nil {
		return invalidArgument(declared.Name, argumentUnverified, err.Error(), nil)
	}
	return err
}

// mustRefuse reports whether all values of an argument must be refused because its schema failed to
// compile with err. Otherwise the upstream decides about the values.
func mustRefuse(err error) bool {
	return errors.Is(err, schema.ErrExternal) || errors.Is(err, schema.ErrDialect)
}

func invalidArgument(name, reason, because string, problems []schema.Problem) *wire.Error {
	data := argumentData(name, reason)
	if len(problems) > 0 {
		data = data.With("problems", wire.Array(exslices.CastFunc(problems, func(p schema.Problem) jsontext.Value {
			return wire.Object{}.With("at", wire.Quote(p.At)).With("problem", wire.Quote(p.Text)).JSON()
		})))
	}
	return wire.NewError(wire.InvalidParams, "Invalid argument "+wire.Clip(name, maxQuoted)+": "+because).WithData(data.JSON())
}

func argumentData(name, reason string) wire.Object {
	return wire.Object{}.With("argument", wire.Quote(wire.Clip(name, maxQuoted))).With("reason", wire.Quote(reason))
}

// schemas caches the most recently used compiled schemas of arguments. An unusable schema is logged
// when it is compiled, not at each use.
type schemas struct {
	logger *slog.Logger
	cache  *lru.Cache[schemaKey, func() (*schema.Schema, error)]
}

// schemaKey identifies an argument's schema. It includes the schema's text, so that a changed
// schema gets another key.
type schemaKey struct{ prompt, argument, schema string }

func newSchemas(logger *slog.Logger) *schemas {
	cache, _ := lru.New[schemaKey, func() (*schema.Schema, error)](maxSchemas) // fails only for a size below one
	return &schemas{logger, cache}
}

// compiled returns the compiled schema of a prompt's argument. If the schema does not compile,
// report is called when it enters the cache, not at each use.
func (s *schemas) compiled(prompt string, declared *catalog.Argument, report func(error)) (*schema.Schema, error) {
	key := schemaKey{prompt, declared.Name, string(*declared.Schema)}
	if compile, ok := s.cache.Get(key); ok {
		return compile()
	}
	// Concurrent gets compile a schema, and log its errors, only once.
	compile := sync.OnceValues(func() (*schema.Schema, error) {
		compiled, err := schema.Compile(*declared.Schema)
		if err != nil {
			report(err)
		}
		return compiled, err
	})
	if earlier, ok, _ := s.cache.PeekOrAdd(key, compile); ok { // another goroutine was faster
		compile = earlier
	}
	return compile()
}

// withOverrides returns the params of a get with the entry's argument overrides. If there are none,
// the params are unchanged.
func withOverrides(entry *catalog.Entry, params wire.Object) wire.Object {
	if entry.Overrides.Empty() {
		return params
	}
	return params.With("arguments", entry.Overrides.AddTo(params.Object("arguments")).JSON())
}

// checkFixed refuses arguments that the configuration fixes.
func checkFixed(entry *catalog.Entry, sent func(name string) bool) error {
	if entry.Overrides.Empty() {
		return nil
	}
	for _, fixed := range entry.Overrides.Fixed {
		if sent(fixed.Name) {
			return argumentIsFixed(fixed.Name)
		}
	}
	return nil
}

func argumentIsFixed(name string) error {
	return invalidArgument(name, argumentFixed, "the gateway's configuration fixes it", nil)
}

// completionParams returns the params of a completion for the upstream. It refuses to complete a
// fixed argument. If the client sends the arguments that it has so far, completionParams adds the
// overrides to them.
func completionParams(entry *catalog.Entry, params wire.Object) (wire.Object, error) {
	if argument, ok := params.Object("argument").Text("name"); ok && entry.Overrides.Fixes(argument) {
		return nil, argumentIsFixed(argument)
	}
	context := params.Object("context")
	if context.Get("arguments").Kind() != '{' || entry.Overrides.Empty() {
		return params, nil
	}
	known := context.Object("arguments")
	if err := checkFixed(entry, func(name string) bool { return known.Get(name) != nil }); err != nil {
		return nil, err
	}
	texts := known
	for _, o := range entry.Overrides.AddTo(known) {
		if o.Value.Kind() == '"' { // the context of a completion holds strings only
			texts = texts.With(o.Name, o.Value)
		}
	}
	return params.With("context", context.With("arguments", texts.JSON()).JSON()), nil
}

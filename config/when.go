package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// Bounds of a when expression. With them an evaluation takes time in proportion to the expression and to what it reads:
// there is no loop in a loop, no arithmetic, and nothing whose result can be much larger than what it is made of.
const (
	// maxCondition bounds an expression, in bytes.
	maxCondition = 4096
	// maxFacts bounds what of a prompt or of a principal an expression can read, in bytes of JSON.
	maxFacts = 64 << 10
	// maxElements bounds a list that it can read.
	maxElements = 256
	// maxGroups bounds a principal's groups for that.
	maxGroups = 1000
	// maxParts bounds a template, since each of its parts may be all that can be read.
	maxParts = 16
	// maxExponent bounds the exponent of a number that an expression can read: written out, it would be as many digits.
	maxExponent = 400
)

// Condition is a when expression: it decides from what is known of a prompt and of a principal. It is immutable and
// safe for concurrent use.
type Condition struct {
	text  string
	expr  hclsyntax.Expression
	calls library

	prompt    bool
	principal []string
}

// String is the expression as it was written, on one line.
func (c *Condition) String() string { return c.text }

// MarshalText makes a condition readable in JSON.
func (c *Condition) MarshalText() ([]byte, error) { return []byte(c.text), nil }

// ReadsPrompt reports whether the condition depends on the prompt.
func (c *Condition) ReadsPrompt() bool { return c.prompt }

// PrincipalFields are what of a principal the condition depends on, sorted, for [PrincipalFacts.Value].
func (c *Condition) PrincipalFields() []string { return c.principal }

// ReadsClaims reports whether the condition depends on what an issuer says of the principal.
func (c *Condition) ReadsClaims() bool {
	return slices.ContainsFunc(c.principal, func(read string) bool { return read == "claims" || strings.HasPrefix(read, "claims.") })
}

// ReadsClaims reports whether some rule depends on what an issuer says of a principal.
func (c *Config) ReadsClaims() bool {
	reads := func(r Rule) bool { return r.When != nil && r.When.ReadsClaims() }
	return slices.ContainsFunc(c.Hides, reads) || slices.ContainsFunc(c.Teams, func(t Team) bool {
		return slices.ContainsFunc(t.Hides, reads) || slices.ContainsFunc(t.Exposes, reads)
	})
}

// ErrUnknown means that a condition depends on what is not known of a prompt or of a principal.
var ErrUnknown = errors.New("it depends on what is not known here")

// Holds evaluates the condition. The error says where it went wrong, without any value that it read.
func (c *Condition) Holds(prompt PromptFacts, who PrincipalFacts) (bool, error) {
	if err := errors.Join(prompt.errIf(c.prompt), who.errIf(len(c.principal) > 0)); err != nil {
		return false, err
	}
	v, diags := c.expr.Value(&hcl.EvalContext{
		Variables: map[string]cty.Value{"prompt": prompt.value, "principal": who.value},
		Functions: c.calls,
	})
	if diags.HasErrors() {
		d := diags.Errs()[0]
		if diag, ok := errors.AsType[*hcl.Diagnostic](d); ok {
			return false, fmt.Errorf("%s in column %d", strings.ToLower(diag.Summary), diag.Subject.Start.Column)
		}
		return false, errors.New("the evaluation went wrong")
	}
	return truth(v)
}

func truth(v cty.Value) (bool, error) {
	v, err := convert.Convert(v, cty.Bool)
	switch {
	case err != nil:
		return false, errors.New("the result is neither true nor false")
	case !v.IsKnown():
		return false, ErrUnknown
	case v.IsNull():
		return false, errors.New("the result is null")
	}
	return v.True(), nil
}

var errTooMuch = errors.New("there is too much to read")

// PromptFacts is what conditions know of a prompt: name, upstream, team, title, description, arguments and meta.
type PromptFacts struct {
	value cty.Value
	err   error
}

// NewPromptFacts returns the facts of a prompt from its definition, as JSON; without one, only what the configuration
// says is known. What the definition does not have is an empty string, list or object.
func NewPromptFacts(name, upstream, team string, definition []byte) PromptFacts {
	facts := map[string]cty.Value{
		"name": cty.StringVal(name), "upstream": cty.StringVal(upstream), "team": cty.StringVal(team),
		"title": cty.UnknownVal(cty.String), "description": cty.UnknownVal(cty.String),
		"arguments": cty.UnknownVal(cty.List(argumentType())), "meta": cty.DynamicVal,
	}
	if definition == nil {
		return PromptFacts{value: cty.ObjectVal(facts)}
	}
	var read struct {
		Title       string          `json:"title"`
		Description string          `json:"description"`
		Arguments   []argumentFacts `json:"arguments"`
		Meta        jsontext.Value  `json:"_meta"`
	}
	if err := readFacts(definition, &read); err != nil {
		return PromptFacts{err: err}
	}
	meta, err := dynamic(read.Meta)
	if err != nil {
		return PromptFacts{err: err}
	}
	facts["title"], facts["description"], facts["meta"] = cty.StringVal(read.Title), cty.StringVal(read.Description), meta
	facts["arguments"] = cty.ListValEmpty(argumentType())
	if len(read.Arguments) > maxElements {
		return PromptFacts{err: errTooMuch}
	}
	if len(read.Arguments) > 0 {
		var arguments []cty.Value
		for _, a := range read.Arguments {
			arguments = append(arguments, a.value())
		}
		facts["arguments"] = cty.ListVal(arguments)
	}
	return PromptFacts{value: cty.ObjectVal(facts)}
}

// errIf returns why the facts cannot be used, if they are.
func (f PromptFacts) errIf(used bool) error {
	if used {
		return f.err
	}
	return nil
}

type argumentFacts struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

func (a argumentFacts) value() cty.Value {
	return cty.ObjectVal(map[string]cty.Value{
		"name": cty.StringVal(a.Name), "title": cty.StringVal(a.Title),
		"description": cty.StringVal(a.Description), "required": cty.BoolVal(a.Required),
	})
}

func argumentType() cty.Type { return argumentFacts{}.value().Type() }

// PrincipalFacts is what conditions know of a principal: subject, groups and claims.
type PrincipalFacts struct {
	value cty.Value
	err   error
}

// NewPrincipalFacts returns the facts of a principal. Claims are a JSON object, or nothing, which is an empty one. Groups
// are sorted, so that it is not their order that tells one principal from another.
func NewPrincipalFacts(subject string, groups []string, claims string) PrincipalFacts {
	said, err := dynamic([]byte(claims))
	if err == nil && len(groups) > maxGroups {
		err = errTooMuch
	}
	if err != nil {
		return PrincipalFacts{err: err}
	}
	list := cty.ListValEmpty(cty.String)
	if len(groups) > 0 {
		var values []cty.Value
		for _, group := range slices.Compact(slices.Sorted(slices.Values(groups))) {
			values = append(values, cty.StringVal(group))
		}
		list = cty.ListVal(values)
	}
	return PrincipalFacts{value: cty.ObjectVal(map[string]cty.Value{
		"subject": cty.StringVal(subject), "groups": list, "claims": said,
	})}
}

// WithoutClaims are the facts where it is not known what the claims are.
func (f PrincipalFacts) WithoutClaims() PrincipalFacts {
	if f.err != nil {
		return f
	}
	values := f.value.AsValueMap()
	values["claims"] = cty.DynamicVal
	return PrincipalFacts{value: cty.ObjectVal(values)}
}

func (f PrincipalFacts) errIf(used bool) error {
	if used {
		return f.err
	}
	return nil
}

// Value returns one of the [Condition.PrincipalFields], spelled so that two principals with the same cannot be told apart by it.
func (f PrincipalFacts) Value(read string) string {
	if f.err != nil {
		return "error"
	}
	attribute, claim, within := strings.Cut(read, ".")
	v := f.value.GetAttr(attribute)
	if !v.IsKnown() {
		return "unknown"
	}
	if within {
		if !v.Type().HasAttribute(claim) {
			return "absent"
		}
		v = v.GetAttr(claim)
	}
	text, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		return "error"
	}
	return string(text)
}

// readFacts decodes JSON that was parsed before.
func readFacts(raw []byte, into any) error {
	if len(raw) > maxFacts {
		return errTooMuch
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return errors.New("it cannot be read")
	}
	return nil
}

// dynamic is a JSON value of any shape; nothing is an empty object.
func dynamic(raw []byte) (cty.Value, error) {
	if len(raw) == 0 {
		return cty.EmptyObjectVal, nil
	}
	if len(raw) > maxFacts {
		return cty.NilVal, errTooMuch
	}
	if err := checkShape(raw); err != nil {
		return cty.NilVal, err
	}
	t, err := ctyjson.ImpliedType(raw)
	if err != nil {
		return cty.NilVal, errors.New("it cannot be read")
	}
	v, err := ctyjson.Unmarshal(raw, t)
	if err != nil {
		return cty.NilVal, errors.New("it cannot be read")
	}
	return v, nil
}

// checkShape refuses JSON with a number whose digits would fill the memory, or with a list that is too long to go through.
func checkShape(raw []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil //nolint:nilerr // it is at its end, or whoever reads it next says what is wrong
		}
		if token.Kind() == '0' && hugeExponent(token.String()) {
			return errors.New("it has a number that is out of range")
		}
		if kind, length := decoder.StackIndex(decoder.StackDepth()); length > maxElements && kind != 0 {
			return errTooMuch
		}
	}
}

func hugeExponent(number string) bool {
	_, exponent, found := strings.Cut(strings.ToLower(number), "e")
	return found && len(strings.TrimLeft(exponent, "+-0")) > 3
}

// condition reads the when attribute of a rule.
func (f fields) condition() *Condition {
	if !f.has("when") {
		return nil
	}
	expr := f.block.Body.Attributes["when"].Expr
	before := len(f.diags)
	source := expr.Range().SliceBytes(f.byPath[expr.Range().Filename].file.Bytes)
	if len(source) > maxCondition {
		f.error(expr.Range(), "Condition too long", "when has more than %d bytes; say it in fewer words.", maxCondition)
		return nil
	}
	c := &Condition{text: strings.Join(strings.Fields(string(source)), " "), expr: expr, calls: f.conditionLibrary()}
	_ = hclsyntax.Walk(expr, &conditionWalker{fields: f})
	if f.diags[before:].HasErrors() {
		return nil
	}
	f.tryOut(c)
	c.reads()
	return c
}

// tryOut evaluates a condition with nothing known but types, which finds every mistake that is one for all prompts
// and all principals.
func (f fields) tryOut(c *Condition) {
	v, diags := c.expr.Value(&hcl.EvalContext{
		Variables: map[string]cty.Value{
			"prompt": cty.UnknownVal(cty.Object(map[string]cty.Type{
				"name": cty.String, "upstream": cty.String, "team": cty.String, "title": cty.String,
				"description": cty.String, "arguments": cty.List(argumentType()), "meta": cty.DynamicPseudoType,
			})),
			"principal": cty.UnknownVal(cty.Object(map[string]cty.Type{
				"subject": cty.String, "groups": cty.List(cty.String), "claims": cty.DynamicPseudoType,
			})),
		},
		Functions: c.calls,
	})
	for _, d := range diags {
		shown := presentable(d, false)
		if d.Summary == "Unknown variable" {
			shown.Detail = "Only prompt and principal are known in when."
		}
		f.diags = append(f.diags, shown)
	}
	if diags.HasErrors() {
		return
	}
	if _, err := truth(v); err != nil && !errors.Is(err, ErrUnknown) {
		f.error(c.expr.Range(), "Invalid when", "when must be true or false: %s.", err)
	}
}

// reads finds out what the condition depends on. A claim is known by its name, what is in it is not.
func (c *Condition) reads() {
	for _, traversal := range c.expr.Variables() {
		switch traversal.RootName() {
		case "prompt":
			c.prompt = true
		case "principal":
			c.principal = append(c.principal, readsOf(traversal)...)
		}
	}
	slices.Sort(c.principal)
	c.principal = slices.Compact(c.principal)
}

func readsOf(traversal hcl.Traversal) []string {
	attribute := step(traversal, 1)
	claim := step(traversal, 2)
	switch {
	case attribute == "":
		return []string{"claims", "groups", "subject"}
	case attribute == "claims" && claim != "":
		return []string{"claims." + claim}
	}
	return []string{attribute}
}

// step is the name of a traversal's step; empty where it has none, or another kind of step.
func step(traversal hcl.Traversal, at int) string {
	if at >= len(traversal) {
		return ""
	}
	switch s := traversal[at].(type) {
	case hcl.TraverseAttr:
		return s.Name
	case hcl.TraverseIndex:
		if s.Key.Type() == cty.String && s.Key.IsKnown() && !s.Key.IsNull() {
			return s.Key.AsString()
		}
	}
	return ""
}

// conditionLibrary are the functions of a when expression. None of them makes much out of little.
func (f fields) conditionLibrary() library {
	calls := library{}
	for _, name := range []string{
		"chomp", "coalesce", "contains", "element", "keys", "length", "lookup", "lower", "regex", "strlen", "substr", "title",
		"tobool", "tolist", "trim", "trimprefix", "trimspace", "trimsuffix", "upper", "values",
	} {
		calls[name] = f.plain[name]
	}
	calls["can"], calls["try"] = tryfunc.CanFunc, tryfunc.TryFunc
	return calls
}

// conditionWalker reports what an expression may have elsewhere and not in when.
type conditionWalker struct {
	fields

	loops int
}

// Enter looks at a node on the way down.
func (w *conditionWalker) Enter(node hclsyntax.Node) hcl.Diagnostics {
	switch n := node.(type) {
	case *hclsyntax.ForExpr:
		if w.loops++; w.loops > 1 {
			w.error(n.Range(), "Loop in a loop", "A for may not stand inside of another in when; use contains or a pattern.")
		}
	case *hclsyntax.TemplateExpr:
		switch {
		case len(n.Parts) > 1 && w.loops > 0:
			w.error(n.Range(), "Template in a loop", "Text may not be put together inside of a for in when; compare its parts.")
		case len(n.Parts) > maxParts:
			w.error(n.Range(), "Template too long", "Text in when may be put together of at most %d parts.", maxParts)
		}
	case *hclsyntax.BinaryOpExpr:
		switch n.Op {
		case hclsyntax.OpAdd, hclsyntax.OpSubtract, hclsyntax.OpMultiply, hclsyntax.OpDivide, hclsyntax.OpModulo:
			w.error(n.Range(), "No arithmetic here", "when compares and does not calculate; rewrite it without the operator.")
		}
	case *hclsyntax.LiteralValueExpr:
		if n.Val.Type() == cty.Number && n.Val.IsKnown() && !n.Val.IsNull() {
			if exponent := n.Val.AsBigFloat().MantExp(nil); exponent > maxExponent || exponent < -maxExponent {
				w.error(n.Range(), "Number out of range", "Write a smaller number.")
			}
		}
	case *hclsyntax.FunctionCallExpr:
		w.call(n)
	}
	return nil
}

// Exit looks at a node on the way up.
func (w *conditionWalker) Exit(node hclsyntax.Node) hcl.Diagnostics {
	if _, ok := node.(*hclsyntax.ForExpr); ok {
		w.loops--
	}
	return nil
}

func (w *conditionWalker) call(n *hclsyntax.FunctionCallExpr) {
	calls := w.conditionLibrary()
	if _, ok := calls[n.Name]; ok {
		return
	}
	known := slices.Sorted(maps.Keys(calls))
	switch _, elsewhere := w.plain[n.Name]; {
	case n.Name == "env" || n.Name == "file":
		w.error(n.Range(), "Not in when", "when decides from prompt and principal alone; %s is not known there.", n.Name)
	case elsewhere:
		w.error(n.Range(), "Not in when", "%s is not known there, since its result can be of any size; there are: %s.", n.Name, strings.Join(known, ", "))
	default:
		w.error(n.Range(), "Call to unknown function", "There is no function %q in when%s", n.Name, suggest(n.Name, known))
	}
}

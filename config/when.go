package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"go.mau.fi/util/exslices"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// maxCondition bounds a when expression, in bytes. The time of an evaluation is proportional to the size of its
// facts: a condition has no arithmetic, and its functions return little more than their arguments.
const maxCondition = 4096

// maxTries bounds the calls of "try" within the arguments of a "try". HCL evaluates the arguments twice, so each
// nested call may double the time.
const maxTries = 4

// decodeWhen decodes the when attribute of a rule. It returns nil if the attribute is absent or wrong.
func decodeWhen(b *hclread.Block) *Condition {
	if !b.Has("when") {
		return nil
	}
	expr, source := b.Expression("when")
	if len(source) > maxCondition {
		b.Error(expr.Range(), "Condition too long", "when is longer than %d bytes; shorten it.", maxCondition)
		return nil
	}
	before := b.Reported()
	b.CheckLoops(expr)
	w := whenChecker{Block: b, functions: whenFunctions(), programs: map[string]*hclread.Program{}}
	hclread.Visit(expr, w.check)
	if b.Reported() > before {
		return nil // evaluating it may take too long
	}
	c := &Condition{
		text: strings.Join(strings.Fields(string(source)), " "), // one line, for logs and explain
		expr: expr, functions: w.functions, programs: w.programs,
	}
	tryCondition(b, c)
	warnNames(b, expr)
	c.findReads()
	return c
}

// whenFunctions returns the functions of a when expression, whose results are little larger than their
// arguments.
func whenFunctions() map[string]hclread.Function {
	all, functions := hclread.Functions(), map[string]hclread.Function{}
	for _, name := range []string{
		"chomp", "coalesce", "contains", "element", "keys", "length", "lookup", "lower", "regex", "strlen", "substr", "title",
		"tobool", "tolist", "trim", "trimprefix", "trimspace", "trimsuffix", "upper", "values",
	} {
		functions[name] = all[name]
	}
	functions["startswith"], functions["endswith"] = affixFunction(strings.HasPrefix), affixFunction(strings.HasSuffix)
	functions["can"], functions["try"] = tryfunc.CanFunc, tryfunc.TryFunc
	return functions
}

// affixFunction returns the function startswith or endswith.
func affixFunction(has func(s, affix string) bool) hclread.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}, {Name: "affix", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(has(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// tryCondition evaluates a condition with only the types of its variables known. That finds every error that
// does not depend on the prompt or the principal.
func tryCondition(b *hclread.Block, c *Condition) {
	steps := hclread.MaxSteps
	v, diags := c.expr.Value(c.context(cty.UnknownVal(promptType()), cty.UnknownVal(principalType()), &steps))
	for _, d := range diags {
		redacted := hclread.Redact(d, false)
		switch d.Summary {
		case "Unknown variable":
			redacted.Detail = "The only variables in when are prompt and principal."
		case "Unsupported attribute":
			redacted.Detail = unknownFact(d)
		}
		b.Report(redacted)
	}
	if diags.HasErrors() {
		return
	}
	if _, err := truth(v); err != nil && !errors.Is(err, ErrUnknown) {
		b.Error(c.expr.Range(), "Invalid when", `when must be true or false: %s; write a comparison, such as prompt.title == "…".`, err)
	}
}

// unknownFact explains an unknown attribute of prompt or principal, and suggests the nearest known attribute.
func unknownFact(d *hcl.Diagnostic) string {
	var facts []string
	for _, t := range []cty.Type{promptType(), principalType()} {
		facts = append(facts, slices.Sorted(maps.Keys(t.AttributeTypes()))...)
	}
	if _, name, ok := strings.Cut(d.Detail, `an attribute named "`); ok {
		name, _, _ = strings.Cut(name, `"`)
		if suggestion := hclread.Suggest(name, facts); strings.HasSuffix(suggestion, "?") {
			return fmt.Sprintf("There is no %q%s", name, suggestion)
		}
	}
	return d.Detail + " The attributes of prompt and principal are: " + strings.Join(facts, ", ") + "."
}

// whenChecker reports operators and functions that other expressions allow but conditions do not. It also
// compiles patterns.
type whenChecker struct {
	*hclread.Block

	functions map[string]hclread.Function
	programs  map[string]*hclread.Program
	// reportedTries is true after the error about maxTries, which is reported once.
	reportedTries bool
}

func (w *whenChecker) check(node hclsyntax.Node) {
	calculates := false
	switch n := node.(type) {
	case *hclsyntax.BinaryOpExpr:
		calculates = n.Op.Type == cty.Number
	case *hclsyntax.UnaryOpExpr:
		_, isNumber := n.Val.(*hclsyntax.LiteralValueExpr)
		calculates = n.Op.Type == cty.Number && !isNumber
	case *hclsyntax.SplatExpr:
		w.splat(n)
	case *hclsyntax.FunctionCallExpr:
		w.call(n)
	}
	if calculates {
		w.Error(node.Range(), "No arithmetic here", "A condition compares and does not calculate; rewrite it without the operator.")
	}
}

// splat allows only names and numbers after [*]: another expression could take time for each pair of elements.
func (w *whenChecker) splat(splat *hclsyntax.SplatExpr) {
	isIndex := false
	hclread.Visit(splat.Each, func(n hclsyntax.Node) {
		switch n.(type) {
		case *hclsyntax.AnonSymbolExpr, *hclsyntax.RelativeTraversalExpr:
		default:
			isIndex = true
		}
	})
	if isIndex {
		w.Error(splat.Range(), "No index here", "Only attribute names may follow [*] in a condition.")
	}
}

// compile compiles a pattern that is written out. A computed pattern is compiled in each evaluation.
func (w *whenChecker) compile(arg hclsyntax.Expression) {
	pattern, isWritten := hclread.Literal(arg)
	if !isWritten {
		return
	}
	program, err := w.Compile(pattern)
	if err != nil {
		w.Error(arg.Range(), "Invalid pattern", "%q %s.", pattern, err)
		return
	}
	w.programs[pattern] = program
}

func (w *whenChecker) call(n *hclsyntax.FunctionCallExpr) {
	if _, ok := w.functions[n.Name]; ok {
		switch {
		case n.Name == "regex" && len(n.Args) > 0:
			w.compile(n.Args[0])
		case n.Name == "try":
			if !w.reportedTries && triesIn(n) > maxTries {
				w.reportedTries = true
				w.Error(n.Range(), "Too many tries", "The arguments of try may call try up to %d times; simplify them.", maxTries)
			}
		}
		return
	}
	names := slices.Sorted(maps.Keys(w.functions))
	all := "use one of: " + strings.Join(names, ", ")
	switch _, isForOthers := hclread.Functions()[n.Name]; {
	case n.Name == "env" || n.Name == "file":
		w.Error(n.Range(), "Not in when", "A condition sees prompt and principal only; %s is not available.", n.Name)
	case isForOthers:
		w.Error(n.Range(), "Not in when", "%s is not available, because its result can have any size; %s.", n.Name, all)
	default:
		w.Error(n.Range(), "Call to unknown function", "There is no function %q in when%s", n.Name, hclread.SuggestOr(n.Name, names, all))
	}
}

// triesIn counts the calls of "try" within the arguments of a call.
func triesIn(call *hclsyntax.FunctionCallExpr) (tries int) {
	hclread.Visit(call, func(inner *hclsyntax.FunctionCallExpr) {
		if inner != call && inner.Name == "try" {
			tries++
		}
	})
	return tries
}

// comparisons visits the facts that a condition compares with a text, or searches among texts. isElement is true if the
// comparison is with an element of the fact, which is then a list.
func comparisons(expr hclsyntax.Expression, visit func(fact hcl.Traversal, text string, at hcl.Range, isElement bool)) {
	compare := func(fact, value hclsyntax.Expression, isElement bool) {
		written, isTemplate := value.(*hclsyntax.TemplateExpr)
		variable, isVariable := fact.(*hclsyntax.ScopeTraversalExpr)
		if !isTemplate || !isVariable || !written.IsStringLiteral() {
			return
		}
		if text, ok := hclread.Literal(written); ok {
			visit(variable.Traversal, text, value.Range(), isElement || len(variable.Traversal) > 2)
		}
	}
	hclread.Visit(expr, func(n *hclsyntax.BinaryOpExpr) {
		if n.Op == hclsyntax.OpEqual || n.Op == hclsyntax.OpNotEqual {
			compare(n.LHS, n.RHS, false)
			compare(n.RHS, n.LHS, false)
		}
	})
	hclread.Visit(expr, func(n *hclsyntax.FunctionCallExpr) {
		if n.Name != "contains" || len(n.Args) != 2 {
			return
		}
		compare(n.Args[0], n.Args[1], true)
		if written, ok := n.Args[0].(*hclsyntax.TupleConsExpr); ok {
			for _, name := range written.Exprs {
				compare(n.Args[1], name, false)
			}
		}
	})
}

// warnNames warns of comparisons that are never true: with a name that lacks "user:" or "group:", or
// between a text and the whole list of groups.
func warnNames(b *hclread.Block, expr hclsyntax.Expression) {
	comparisons(expr, func(fact hcl.Traversal, text string, at hcl.Range, isElement bool) {
		what, start := "principal.subject", "user:"
		switch factName(fact) {
		case "principal.groups":
			what, start = "each of principal.groups", "group:"
			if !isElement {
				b.Warning(at, "List compared with a text", "principal.groups is a list and never "+
					"equals a text; write contains(principal.groups, %q).", start+strings.TrimPrefix(text, start))
				return
			}
		case "principal.subject":
		default:
			return
		}
		if !strings.HasPrefix(text, start) {
			b.Warning(at, "Name without "+start, "%s begins with %q, so it is never %q; write %q.", what, start, text, start+text)
		}
	})
}

// warnUnknownFacts warns of conditions that compare prompt.upstream or prompt.team with a label that no block has.
func (d *decoder) warnUnknownFacts(cfg *Config) {
	if d.Broken() || d.options.hasReplaced || len(cfg.Teams) == 0 { // the block may be in a file that was not read
		return
	}
	known := map[string][]string{
		"prompt.team":     cfg.TeamNames(),
		"prompt.upstream": exslices.CastFunc(cfg.Upstreams(), func(u Upstream) string { return u.Name }),
	}
	for _, r := range cfg.rules() {
		if r.When == nil {
			continue
		}
		comparisons(r.When.expr, func(fact hcl.Traversal, text string, at hcl.Range, _ bool) {
			labels, isLabel := known[factName(fact)]
			if isLabel && !slices.Contains(labels, text) {
				d.Warning(at, "Unknown label", "%s is never %q, because no block has this label%s", factName(fact), text,
					hclread.SuggestOr(text, labels, "correct or remove it"))
			}
		})
	}
}

// factName returns a fact as it is written, without further parts: prompt.upstream.
func factName(fact hcl.Traversal) string { return fact.RootName() + "." + stepName(fact, 1) }

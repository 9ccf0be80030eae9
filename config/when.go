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

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Bounds of a when expression. It has no arithmetic, and no function whose result is much larger
// than its arguments, so that what an evaluation takes can be found beforehand.
const (
	maxCondition = 4096 // bytes
	// maxConditionSteps bounds one evaluation. A byte that is read is about one step, and a byte
	// that a regular expression looks at is one for each of its instructions. It is a few
	// milliseconds at most.
	maxConditionSteps = 1 << 20
)

const summaryTooMuch = "Too much to evaluate"

// decodeWhen decodes the when attribute of a rule; nil if there is none or it is wrong.
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
	b.Prepare(expr)
	w := whenChecker{Block: b, functions: whenFunctions(), programs: map[string]*hclread.Program{}}
	// The map is filled by the check below, before anything calls the function.
	w.functions["regex"] = hclread.RegexFunction(w.programs)
	_ = hclsyntax.VisitAll(expr, w.check)
	if b.Reported() > before {
		return nil // evaluating it may take forever
	}
	c := &Condition{
		text: strings.Join(strings.Fields(string(source)), " "), // one line, for logs and explain
		expr: expr, functions: w.functions, steps: hclread.NewSteps(expr, w.programs),
	}
	tryCondition(b, c)
	warnNames(b, expr)
	c.findReads()
	return c
}

// whenFunctions returns the functions of a when expression. The result of none is much larger than
// its arguments.
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

// affixFunction makes a function of a text and of what it may start or end with.
func affixFunction(has func(s, affix string) bool) hclread.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "str", Type: cty.String}, {Name: "affix", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(has(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// tryCondition evaluates a condition with only the types of its variables known.
func tryCondition(b *hclread.Block, c *Condition) {
	// That finds every error that does not depend on the prompt or the principal.
	ctx := &hcl.EvalContext{
		Variables: map[string]cty.Value{"prompt": cty.UnknownVal(promptType()), "principal": cty.UnknownVal(principalType())},
		Functions: c.functions,
	}
	if _, over := c.steps.Count(ctx, maxConditionSteps); over != nil {
		b.Error(*over, summaryTooMuch, "Evaluating this takes more than %d steps, whatever the prompt is; simplify it.", maxConditionSteps)
		return
	}
	v, diags := c.expr.Value(ctx)
	for _, d := range diags {
		shown := hclread.Redact(d, false)
		switch d.Summary {
		case "Unknown variable":
			shown.Detail = "The only variables in when are prompt and principal."
		case "Unsupported attribute":
			shown.Detail = unknownFact(d)
		}
		b.Report(shown)
	}
	if diags.HasErrors() {
		return
	}
	if _, err := truth(v); err != nil && !errors.Is(err, ErrUnknown) {
		b.Error(c.expr.Range(), "Invalid when", "when must be true or false: %s.", err)
	}
}

// unknownFact says which attributes prompt and principal have, and which of them was most likely
// meant.
func unknownFact(d *hcl.Diagnostic) string {
	var known []string
	for _, t := range []cty.Type{promptType(), principalType()} {
		known = append(known, slices.Sorted(maps.Keys(t.AttributeTypes()))...)
	}
	if _, name, ok := strings.Cut(d.Detail, `an attribute named "`); ok {
		name, _, _ = strings.Cut(name, `"`)
		if suggestion := hclread.Suggest(name, known); strings.HasSuffix(suggestion, "?") {
			return fmt.Sprintf("There is no %q%s", name, suggestion)
		}
	}
	return d.Detail + " The attributes of prompt and principal are: " + strings.Join(known, ", ") + "."
}

// whenChecker reports what other expressions may contain and a when expression may not.
type whenChecker struct {
	*hclread.Block

	functions map[string]hclread.Function
	programs  map[string]*hclread.Program
}

func (w *whenChecker) check(node hclsyntax.Node) hcl.Diagnostics {
	switch n := node.(type) {
	case *hclsyntax.BinaryOpExpr:
		if n.Op.Type == cty.Number {
			w.Error(n.Range(), "No arithmetic here", "A condition compares and does not "+
				"calculate; rewrite it without the operator.")
		}
	case *hclsyntax.SplatExpr:
		w.splat(n)
	case *hclsyntax.FunctionCallExpr:
		w.call(n)
	}
	return nil
}

// splat refuses what takes long for each element.
func (w *whenChecker) splat(splat *hclsyntax.SplatExpr) {
	_ = hclsyntax.VisitAll(splat.Each, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.AnonSymbolExpr:
			return nil
		case *hclsyntax.RelativeTraversalExpr:
			isIndex := func(step hcl.Traverser) bool { _, ok := step.(hcl.TraverseIndex); return ok }
			if !slices.ContainsFunc(n.Traversal, isIndex) {
				return nil
			}
		}
		w.Error(splat.Range(), "No index here", "Only attribute names may follow [*] in a condition.")
		return nil
	})
}

// compile compiles a pattern that is written out. Others are compiled whenever the condition is
// evaluated.
func (w *whenChecker) compile(arg hclsyntax.Expression) {
	v, diags := arg.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || !v.IsKnown() || v.IsNull() {
		return
	}
	if w.programs[v.AsString()] != nil {
		return
	}
	program, err := w.Compile(v.AsString())
	if err != nil {
		w.Error(arg.Range(), "Invalid pattern", "%q %s.", v.AsString(), err)
		return
	}
	w.programs[v.AsString()] = program
}

func (w *whenChecker) call(n *hclsyntax.FunctionCallExpr) {
	if _, ok := w.functions[n.Name]; ok {
		if n.Name == "regex" && len(n.Args) > 0 {
			w.compile(n.Args[0])
		}
		return
	}
	known := slices.Sorted(maps.Keys(w.functions))
	switch _, isForOthers := hclread.Functions()[n.Name]; {
	case n.Name == "env" || n.Name == "file":
		w.Error(n.Range(), "Not in when", "A condition sees prompt and principal only; %s is not available.", n.Name)
	case isForOthers:
		w.Error(n.Range(), "Not in when", "%s is not available, because its result can have any "+
			"size; use one of: %s.", n.Name, strings.Join(known, ", "))
	default:
		w.Error(n.Range(), "Call to unknown function", "There is no function %q in "+
			"when%s", n.Name, hclread.Suggest(n.Name, known))
	}
}

// comparisons visits the facts of a when expression that are compared with a text, or looked for
// among texts. A fact that is a list is looked into only where isElement says so.
func comparisons(
	expr hclsyntax.Expression, visit func(fact hcl.Traversal, text string, at hcl.Range, isElement bool),
) {
	compare := func(fact, value hclsyntax.Expression, isElement bool) {
		written, isTemplate := value.(*hclsyntax.TemplateExpr)
		variable, isVariable := fact.(*hclsyntax.ScopeTraversalExpr)
		if !isTemplate || !isVariable || !written.IsStringLiteral() {
			return
		}
		if text, diags := written.Value(nil); !diags.HasErrors() {
			visit(variable.Traversal, text.AsString(), value.Range(), isElement || len(variable.Traversal) > 2)
		}
	}
	_ = hclsyntax.VisitAll(expr, func(node hclsyntax.Node) hcl.Diagnostics {
		switch n := node.(type) {
		case *hclsyntax.BinaryOpExpr:
			if n.Op == hclsyntax.OpEqual || n.Op == hclsyntax.OpNotEqual {
				compare(n.LHS, n.RHS, false)
				compare(n.RHS, n.LHS, false)
			}
		case *hclsyntax.FunctionCallExpr:
			if n.Name == "contains" && len(n.Args) == 2 {
				compare(n.Args[0], n.Args[1], true)
				if written, ok := n.Args[0].(*hclsyntax.TupleConsExpr); ok {
					for _, name := range written.Exprs {
						compare(n.Args[1], name, false)
					}
				}
			}
		}
		return nil
	})
}

// warnNames warns of comparisons in a when expression that never hold, because they forget that
// subjects begin with "user:" and groups with "group:", or that groups are a list.
func warnNames(b *hclread.Block, expr hclsyntax.Expression) {
	comparisons(expr, func(fact hcl.Traversal, text string, at hcl.Range, isElement bool) {
		if fact.RootName() != "principal" {
			return
		}
		what, start := "principal.subject", "user:"
		switch stepName(fact, 1) {
		case "groups":
			what, start = "each of principal.groups", "group:"
			if !isElement {
				b.Warning(at, "List compared with a text", "principal.groups is a list and never "+
					"equals a text; write contains(principal.groups, %q).", start+strings.TrimPrefix(text, start))
				return
			}
		case "subject":
		default:
			return
		}
		if !strings.HasPrefix(text, start) {
			b.Warning(at, "Name without "+start, "%s begins with %q, so it is never %q; "+
				"write %q.", what, start, text, start+text)
		}
	})
}

// warnFacts warns of comparisons in when expressions with an upstream or a team that none of the
// rule's prompts is of.
func warnFacts(r *hclread.Reader, cfg *Config) {
	if r.Broken() { // what is missing may be in what could not be read
		return
	}
	warn := func(rules []Rule, known map[string][]string) {
		for i := range rules {
			if rules[i].When == nil {
				continue
			}
			comparisons(rules[i].When.expr, func(fact hcl.Traversal, text string, at hcl.Range, _ bool) {
				kind := stepName(fact, 1)
				names, isName := known[kind]
				if fact.RootName() == "prompt" && isName && !slices.Contains(names, text) {
					r.Warning(at, "Unknown "+kind, "prompt.%s is never %q in "+
						"this rule%s", kind, text, hclread.Suggest(text, names))
				}
			})
		}
	}
	all := map[string][]string{}
	for i := range cfg.Teams {
		team := &cfg.Teams[i]
		own := map[string][]string{"team": {team.Name}, "upstream": {}}
		for j := range team.Upstreams {
			own["upstream"] = append(own["upstream"], team.Upstreams[j].Name)
		}
		warn(team.Hides, own)
		warn(team.Exposes, own)
		for kind := range own {
			all[kind] = append(all[kind], own[kind]...)
		}
	}
	if len(cfg.Teams) > 0 {
		warn(cfg.Hides, all)
	}
}

package terminal

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/gateway/elicit"
	"github.com/promptweir/promptweir/upstream/wire"
)

// Elicit asks the user what a server wants to know, and returns the reply (elicitation/create).
func (p *Prompter) Elicit(ctx context.Context, method string, params jsontext.Value) (jsontext.Value, error) {
	if method != wire.Elicit {
		return nil, wire.NewError(wire.MethodNotFound,
			"Method not found: only elicitations are answered")
	}
	request, err := elicit.Read(params)
	if err != nil {
		return nil, err
	}
	var content wire.Object
	if request.IsURL {
		err = p.openURL(ctx, request.Message, request.URL)
	} else {
		content, err = p.fillIn(ctx, request)
	}
	switch {
	case errors.Is(err, ErrNoAnswer):
		return elicit.Reply(elicit.Decline, nil), nil
	case err != nil:
		return nil, err
	}
	return elicit.Reply(elicit.Accept, content), nil
}

// openURL asks the user to open an address. It is not opened here, because the server is not to be
// trusted that far.
func (p *Prompter) openURL(ctx context.Context, message, url string) error {
	if err := p.Tell(OneLine("The server asks you to open an address: " + message)); err != nil {
		return err
	}
	if err := p.Tell(OneLine(url)); err != nil {
		return err
	}
	_, err := p.Ask(ctx, "Open it if you trust it, then press Enter; Ctrl-D declines:", nil)
	return err
}

// fillIn asks for each field of a form, and returns its content.
func (p *Prompter) fillIn(ctx context.Context, request *elicit.Request) (wire.Object, error) {
	if err := p.Tell(OneLine("The server asks: " + request.Message + " (Ctrl-D declines)")); err != nil {
		return nil, err
	}
	content := wire.Object{}
	for i := range request.Fields {
		f := &request.Fields[i]
		value, err := p.fillInField(ctx, f)
		if err != nil {
			return nil, err
		}
		if value != nil {
			content = content.With(f.Name, value)
		}
	}
	return content, nil
}

// fillInField asks until the answer fits the field. It returns nil for a field that the user leaves
// out.
func (p *Prompter) fillInField(ctx context.Context, f *elicit.Field) (jsontext.Value, error) {
	complete := func(start string) (values []string) {
		for _, c := range f.Choices {
			if strings.HasPrefix(c.Value, start) {
				values = append(values, c.Value)
			}
		}
		return values
	}
	for {
		text, err := p.Ask(ctx, question(f), complete)
		if err != nil {
			return nil, err
		}
		value, problem := f.Value(answers(f, strings.TrimSpace(text))...)
		if problem == "" {
			return value, nil
		}
		if err := p.Tell(OneLine(problem)); err != nil {
			return nil, err
		}
	}
}

// answers returns the answers in a line: between commas where there may be several.
func answers(f *elicit.Field, text string) []string {
	if !f.Several() || text == "" {
		return []string{text}
	}
	var all []string
	for one := range strings.SplitSeq(text, ",") {
		all = append(all, strings.TrimSpace(one))
	}
	return all
}

// question says what to type.
func question(f *elicit.Field) string {
	var hints []string
	if text := strings.TrimSuffix(f.Description, "."); text != "" {
		hints = append(hints, text)
	}
	var choices []string
	for _, c := range f.Choices {
		if !Showable(c.Value) {
			continue // with a replacement in it, it would be another value
		}
		if c.Title != "" && c.Title != c.Value {
			c.Value += " = " + c.Title
		}
		choices = append(choices, c.Value)
	}
	switch {
	case f.Several():
		hints = append(hints, "several of, with commas: "+strings.Join(choices, ", "))
	case len(choices) > 0:
		hints = append(hints, "one of: "+strings.Join(choices, ", "))
	case f.Type == "boolean":
		hints = append(hints, "yes or no")
	case f.Type == "number" || f.Type == "integer":
		hints = append(hints, f.Type)
	}
	if limits := f.Limits(); limits != "" {
		hints = append(hints, limits)
	}
	switch {
	case f.Default != nil:
		hints = append(hints, "Enter for "+string(f.Default))
	case !f.Required:
		hints = append(hints, "Enter for none")
	}
	return OneLine(f.Label()) + InBrackets(strings.Join(hints, "; ")) + ":"
}

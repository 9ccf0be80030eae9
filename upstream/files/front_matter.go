package files

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxFrontMatter bounds the front matter of a file, in bytes.
	maxFrontMatter = 64 << 10
	// maxDepth bounds the nesting of values in front matter.
	maxDepth = 32
)

// split separates front matter, which is between two lines of three hyphens, from the text.
// textLine is the first line of the text in the file. Without front matter, everything is text.
// split searches for the end of front matter only up to maxFrontMatter.
func split(content string) (front, text string, textLine int, err error) {
	first, rest, _ := strings.Cut(content, "\n")
	if strings.TrimRight(first, " \t\r") != "---" {
		return "", content, 1, nil
	}
	for line, at := 2, 0; at < min(len(rest), maxFrontMatter); line++ {
		text, _, _ := strings.Cut(rest[at:min(len(rest), at+maxFrontMatter)], "\n")
		next := min(at+len(text)+1, len(rest))
		if strings.TrimRight(text, " \t\r") == "---" {
			return rest[:at], rest[next:], line + 1, nil
		}
		at = next
	}
	return "", content, 1, wrong(1, "the front matter has no end within %d bytes; write a line of three hyphens below it, "+
		"or none at the start", maxFrontMatter)
}

// field is one entry of a mapping in front matter.
type field struct {
	name  string
	line  int // the line in the file
	value *yaml.Node
}

// yamlLine matches the prefix with the line number in an error of the YAML library, which has no
// field for it.
var yamlLine = lazily(`^yaml: (?:line (\d+): )?`)

// parseFrontMatter returns the fields of front matter, which begins in the second line of its file. It refuses aliases,
// because a few lines with aliases can expand to more than fits in memory.
func parseFrontMatter(front string) ([]field, error) {
	var document, more yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(front))
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		found := yamlLine().FindStringSubmatch(err.Error())
		line := 1
		if found != nil && found[1] != "" {
			line, _ = strconv.Atoi(found[1])
		}
		return nil, notYAML(front, line, yamlLine().ReplaceAllString(err.Error(), ""))
	}
	if len(document.Content) == 0 { // the front matter has only comments
		return nil, nil
	}
	// Refuse a second document: hosts that read line by line would find fields in it that this
	// gateway has not checked.
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, wrong(max(more.Line, 1)+1, "the front matter has two documents; remove the line that ends the first")
	}
	if err := checkNode(document.Content[0], 0); err != nil {
		return nil, err
	}
	return fieldsOf(document.Content[0])
}

// notYAML returns an error that explains an error of the YAML library. line counts from the
// beginning of front.
func notYAML(front string, line int, problem string) error {
	lines, remedy := strings.Split(front, "\n"), "put values with special characters into quotes"
	switch {
	case strings.Contains(problem, "tab") || strings.Contains(problem, "cannot start any token"):
		for at := max(line-1, 0); at < len(lines); at++ { // the library may report the line before the tab
			if strings.HasPrefix(strings.TrimLeft(lines[at], " "), "\t") {
				return wrong(at+2, "a tab indents this line of the front matter, which YAML does not allow; write blanks in its place")
			}
		}
	case strings.Contains(problem, "did not find expected '-'") || strings.Contains(problem, "did not find expected key"):
		remedy = "indent the lines of one entry alike, and put values with special characters into quotes"
	case strings.Contains(problem, "unexpected end of stream"):
		remedy = "write the missing quote"
	case strings.Contains(problem, "',' or"):
		remedy = "write the missing bracket"
	}
	return wrong(line+1, "the front matter is not YAML: %s; %s", problem, remedy)
}

// checkNode refuses aliases and deep nesting.
func checkNode(node *yaml.Node, depth int) error {
	switch {
	case node.Kind == yaml.AliasNode:
		return wrong(node.Line+1, "the alias *%s is not supported; write the value again", node.Value)
	case depth > maxDepth:
		return wrong(node.Line+1, "the front matter is nested more than %d levels deep", maxDepth)
	}
	for _, inner := range node.Content {
		if err := checkNode(inner, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the entries of a mapping. It refuses a node that is not a mapping, and names
// that are not unique.
func fieldsOf(node *yaml.Node) ([]field, error) {
	if node.Kind != yaml.MappingNode {
		return nil, wrong(node.Line+1, "this is not a list of NAME: VALUE lines")
	}
	var fields []field
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		if name.Kind != yaml.ScalarNode {
			return nil, wrong(name.Line+1, "a name must be a word")
		}
		if name.Tag == "!!merge" { // hosts would read the merged entries as fields
			return nil, wrong(name.Line+1, "the merge key << is not supported; write the values themselves")
		}
		if seen[name.Value] {
			return nil, wrong(name.Line+1, "%q is there twice; remove one", name.Value)
		}
		seen[name.Value] = true
		fields = append(fields, field{name.Value, name.Line + 1, node.Content[i+1]})
	}
	return fields, nil
}

// setText returns a setter for a text. Numbers and booleans keep their spelling.
func setText(dst *string) func(field) error {
	return func(f field) error {
		if f.value.Kind != yaml.ScalarNode || f.value.Tag == "!!null" {
			return wrong(f.line, "%q must be a text", f.name)
		}
		*dst = f.value.Value
		return nil
	}
}

func setBool(dst *bool) func(field) error {
	return func(f field) error {
		if f.value.Kind != yaml.ScalarNode || f.value.Tag != "!!bool" {
			return wrong(f.line, "%q must be true or false", f.name)
		}
		*dst = strings.EqualFold(f.value.Value, "true")
		return nil
	}
}

// setTexts returns a setter for a list of texts.
func setTexts(dst *[]string) func(field) error {
	return func(f field) error {
		if f.value.Kind != yaml.SequenceNode {
			return wrong(f.line, "%q must be a list, like [low, high]", f.name)
		}
		for _, element := range f.value.Content {
			var text string
			if err := setText(&text)(field{f.name, element.Line + 1, element}); err != nil {
				return err
			}
			*dst = append(*dst, text)
		}
		return nil
	}
}

// setJSON returns a setter that stores a value of one kind as JSON. what describes the kind in
// errors.
func setJSON(dst *jsontext.Value, kind yaml.Kind, what string) func(field) error {
	return func(f field) error {
		if f.value.Kind != kind {
			return wrong(f.line, "%q must be %s", f.name, what)
		}
		value, err := toJSON(f.value)
		*dst = value
		return err
	}
}

// toJSON returns a YAML value as JSON. Numbers keep their spelling; a number that JSON cannot
// spell, such as .inf, is an error.
func toJSON(node *yaml.Node) (jsontext.Value, error) {
	switch node.Kind {
	case yaml.MappingNode:
		fields, err := fieldsOf(node)
		if err != nil {
			return nil, err
		}
		object, err := toObject(fields)
		return object.JSON(), err
	case yaml.SequenceNode:
		var list []jsontext.Value
		for _, element := range node.Content {
			value, err := toJSON(element)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return wire.Array(list), nil
	}
	switch node.Tag {
	case "!!null":
		return jsontext.Value("null"), nil
	case "!!bool":
		return jsontext.Value(strings.ToLower(node.Value)), nil
	case "!!int", "!!float":
		if number := jsontext.Value(node.Value); number.IsValid() {
			return number, nil
		}
		return nil, wrong(node.Line+1, "the value %s is not a JSON number; write it in digits, or as a text in quotes", node.Value)
	}
	return wire.Quote(node.Value), nil
}

func toObject(fields []field) (object wire.Object, err error) {
	for _, f := range fields {
		value, err := toJSON(f.value)
		if err != nil {
			return nil, err
		}
		object = append(object, wire.Member{Name: f.name, Value: value})
	}
	return object, nil
}

// decode calls the setter of each field, or unknown for a field without a setter. It stops at the
// first error.
func decode(fields []field, setters map[string]func(field) error, unknown func(field) error) error {
	for _, f := range fields {
		set := setters[f.name]
		if set == nil {
			set = unknown
		}
		if err := set(f); err != nil {
			return err
		}
	}
	return nil
}

// Command schemagen reduces the JSON schemas of the MCP specification to their structure: what a
// test needs in order to check a message, and none of the specification's prose. Run it through go
// generate, as the README beside the schemas says.
//
//	schemagen -from CHECKOUT -to DIRECTORY REVISION...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	log.SetFlags(0)
	from := flag.String("from", "", "a checkout of the specification's repository")
	to := flag.String("to", ".", "the directory to write REVISION.json to")
	flag.Parse()
	if err := run(*from, *to, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(from, to string, revisions []string) error {
	if from == "" {
		return errors.New("schemagen: -from is empty: name a checkout of github.com/modelcontextprotocol/modelcontextprotocol")
	}
	for _, revision := range revisions {
		original, err := os.ReadFile(filepath.Join(from, "schema", revision, "schema.json"))
		if err != nil {
			return err
		}
		reduced, err := reduce(original)
		if err != nil {
			return fmt.Errorf("%s: %w", revision, err)
		}
		if err := os.WriteFile(filepath.Join(to, revision+".json"), reduced, 0o644); err != nil { //nolint:gosec // read by all
			return err
		}
	}
	return nil
}

// prose are the keywords that validate nothing.
var prose = []string{"description", "title", "$comment", "examples", "default", "deprecated"} //nolint:gochecknoglobals // a constant table

// reduce drops the prose of a schema document, and prints each definition on a line of its own,
// sorted by name.
func reduce(original []byte) ([]byte, error) {
	var document map[string]any
	decoder := json.NewDecoder(bytes.NewReader(original))
	decoder.UseNumber() // a bound keeps its digits
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	reduced := schema(document)
	keyword := "$defs"
	if reduced[keyword] == nil {
		keyword = "definitions" // until 2025-06-18
	}
	definitions, _ := reduced[keyword].(map[string]any)
	if len(definitions) == 0 {
		return nil, errors.New("the schema has no definitions")
	}
	delete(reduced, keyword)
	dialect, ok := reduced["$schema"].(string)
	if delete(reduced, "$schema"); !ok || len(reduced) > 0 {
		return nil, fmt.Errorf("the document has more than a dialect and definitions: %v", reduced)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n\"$schema\": %q,\n%q: {", dialect, keyword)
	separator := "\n"
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		line, err := json.Marshal(definitions[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s%q: %s", separator, name, line)
		separator = ",\n"
	}
	out.WriteString("\n}}\n")
	return out.Bytes(), nil
}

// schema returns a schema without its prose. Members of "properties" and the like are names that
// the schema gives, not keywords: a property may well be called "description" or "title".
func schema(s map[string]any) map[string]any {
	reduced := map[string]any{}
	for keyword, value := range s {
		switch {
		case slices.Contains(prose, keyword):
		case keyword == "properties" || keyword == "$defs" || keyword == "definitions":
			named, _ := value.(map[string]any)
			all := map[string]any{}
			for name, member := range named {
				all[name] = subschema(member)
			}
			reduced[keyword] = all
		case keyword == "const" || keyword == "enum": // values, not schemas
			reduced[keyword] = value
		default:
			reduced[keyword] = subschema(value)
		}
	}
	return reduced
}

// subschema reduces a keyword's value if it is a schema or a list of schemas.
func subschema(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return schema(value)
	case []any:
		all := make([]any, len(value))
		for i, member := range value {
			all[i] = subschema(member)
		}
		return all
	}
	return value
}

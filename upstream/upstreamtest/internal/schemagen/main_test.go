package main

import "testing"

func TestReduce_DropsProseAndKeepsStructure(t *testing.T) {
	const original = `{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$defs": {
			"B": {"description": "Prose.", "anyOf": [{"title": "Prose", "const": {"title": "a value"}}, {"$ref": "#/$defs/A"}]},
			"A": {
				"properties": {
					"description": {"description": "Prose.", "type": "string", "default": "prose"},
					"title": {"$comment": "prose", "examples": ["prose"], "enum": ["description"]}
				},
				"required": ["description"],
				"additionalProperties": {"deprecated": true, "type": "integer"}
			}
		}
	}`
	const want = `{
"$schema": "https://json-schema.org/draft/2020-12/schema",
"$defs": {
"A": {"additionalProperties":{"type":"integer"},"properties":{"description":{"type":"string"},"title":{"enum":["description"]}},"required":["description"]},
"B": {"anyOf":[{"const":{"title":"a value"}},{"$ref":"#/$defs/A"}]}
}}
`
	got, err := reduce([]byte(original))
	if err != nil || string(got) != want {
		t.Errorf("reduce() = %v\n%s\nwant\n%s", err, got, want)
	}
}

func TestReduce_RefusesWhatItDoesNotKnow(t *testing.T) {
	for _, original := range []string{`[]`, `{}`, `{"$defs":{"A":{}}}`, `{"$schema":"x","$defs":{}}`, `{"$schema":"x","$defs":{"A":{}},"type":"object"}`} {
		if got, err := reduce([]byte(original)); err == nil {
			t.Errorf("reduce(%s) = %s, want an error", original, got)
		}
	}
}

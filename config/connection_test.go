package config

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestConnection_DiffersWithWhatAServerListsFor(t *testing.T) {
	const block = `team "eng" {
  upstream "up" {
    urls    = ["https://one.example.com/mcp", "https://two.example.com/mcp"]
    headers = { X-Key = "one", X-Other = "hushed" }
    # more
    tls { server_name = "mcp.example.com" }
    oauth {
      token_url     = "https://one.example.com/t"
      client_id     = "a"
      client_secret = "before"
    }
  }
}
`
	connection := func(i int, change ...string) []byte {
		return load(t, write(t, "eng.hcl", strings.NewReplacer(change...).Replace(block))).Upstreams()[0].Connection(i)
	}
	first := connection(0)
	if bytes.Equal(first, connection(1)) {
		t.Error("both endpoints have the same connection")
	}
	for change, same := range map[[2]string]bool{
		{`upstream "up"`, `upstream "other"`}:          true,
		{`team "eng"`, `team "ops"`}:                   true,
		{"# more", "\n\n"}:                             true,
		{"# more", `prefix = "other"`}:                 true,
		{"# more", `when_down = "hide"`}:               true,
		{"two.example.com", "three.example.com"}:       true, // another endpoint
		{`"one.example`, `"One.example`}:               true, // it has no such text
		{"one.example.com/mcp", "one.example.com/mcq"}: false,
		{`X-Key = "one"`, `X-Key = "two"`}:             false,
		{`X-Key = "one"`, `X-Kez = "one"`}:             false,
		{`"hushed"`, `"hushes"`}:                       false,
		{`"before"`, `"after"`}:                        false,
		{"mcp.example", "mcq.example"}:                 false,
		{"# more", `protocol = "2025-11-25"`}:          false,
		{"# more", `transport = "sse"`}:                false,
		{"# more", `max_prompts = 7`}:                  false,
		{"# more", `max_message = 70000`}:              false,
		{"# more", `timeout = "1s"`}:                   false,
		{"# more", `refresh = "1m"`}:                   false,
	} {
		if got := bytes.Equal(first, connection(0, change[0], change[1])); got != same {
			t.Errorf("with %s instead of %s: the same connection: %v, want %v", change[1], change[0], got, same)
		}
	}
}

// Whoever adds an attribute must not forget that replicas with another value of it share no list.
func TestConnection_DependsOnEveryAttribute(t *testing.T) {
	none := []string{"Name", "Team", "Place", "Prefix", "WhenDown", "Grace", "shown"}
	zero := Upstream{URLs: []string{"https://one.example.com"}}
	before := zero.Connection(0)
	for i := range reflect.TypeFor[Upstream]().NumField() {
		field := reflect.TypeFor[Upstream]().Field(i)
		if slices.Contains(none, field.Name) || field.Name == "Files" { // of which there is no URL
			continue
		}
		changed := zero
		changed.URLs = slices.Clone(zero.URLs)
		set(t, reflect.ValueOf(&changed).Elem().Field(i))
		if bytes.Equal(changed.Connection(0), before) {
			t.Errorf("%s makes no difference", field.Name)
		}
	}
}

// set makes a value another one than the zero value, and another one than in a URL.
func set(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		set(t, v.Field(0))
	default:
		t.Fatalf("a %s", v.Type())
	}
}

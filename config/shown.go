package config

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Settings are a part of a configuration as it is in use, with defaults filled in and without
// anything sensitive: what is secret, and what came from env or file, is masked, and so is what
// somebody has written into an address or a command under the name of a secret.
type Settings []Setting

// Setting is a name with its value: a string, a bool, a number, Settings, or a []any of those.
type Setting struct {
	Name  string
	Value any
}

// MarshalJSON writes an object with its members in order.
func (s Settings) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, setting := range s {
		value, err := marshalPlain(setting.Value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		name, err := marshalPlain(setting.Name)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// marshalPlain leaves <, > and & as they are.
func marshalPlain(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// Get returns the value of a setting, nil if there is none.
func (s Settings) Get(name string) any {
	at := slices.IndexFunc(s, func(setting Setting) bool { return setting.Name == name })
	if at < 0 {
		return nil
	}
	return s[at].Value
}

// Shown returns all settings of the configuration. They are named as its fields are. What is not
// set and has no default is left out.
func (c *Config) Shown() Settings {
	s := cmp.Or(c.shower, &shower{})
	all := Settings{{"gateway", s.settings(reflect.ValueOf(c.Gateway))}, {"admin", s.settings(reflect.ValueOf(c.Admin))}}
	for _, block := range []struct {
		name  string
		value any
	}{{"cluster", c.Cluster}, {"audit", c.Audit}, {"auth", c.Auth}, {"hides", c.Hides}, {"teams", c.Teams}} {
		if value := s.value(reflect.ValueOf(block.value)); value != nil {
			all = append(all, Setting{block.name, value})
		}
	}
	return all
}

// ShownTeam returns the settings of a team, nil if there is none of the name.
func (c *Config) ShownTeam(name string) Settings {
	at := slices.IndexFunc(c.Teams, func(t Team) bool { return t.Name == name })
	if at < 0 {
		return nil
	}
	return cmp.Or(c.shower, &shower{}).settings(reflect.ValueOf(c.Teams[at]))
}

// shower makes settings of the structs of a configuration. It is generic, so that a new field is
// shown, or masked by its type, without anybody having to think of it.
type shower struct {
	// sensitive are the texts that came from env or file.
	sensitive []string
}

// settings returns those of a struct.
func (s *shower) settings(v reflect.Value) Settings {
	var all Settings
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || slices.Contains([]string{"Place", "Block", "Team", "TransportExplicit"}, field.Name) {
			continue // a file has no such attribute
		}
		value := s.value(v.Field(i))
		if u, ok := reflect.TypeAssert[Upstream](v); ok {
			value = s.upstream(&u, field.Name, value)
		}
		if value != nil {
			all = append(all, Setting{settingName(field.Name), value})
		}
	}
	return all
}

// upstream returns the value of an upstream's field: addresses have masks of their own.
func (s *shower) upstream(u *Upstream, field string, value any) any {
	if value == nil || field != "URLs" && field != "Command" {
		return value
	}
	var all []any
	for _, word := range hideWords(u.shownWords()) {
		all = append(all, word)
	}
	return all
}

// value returns what a value is shown as, nil where it is left out.
func (s *shower) value(v reflect.Value) any {
	if !v.IsValid() || v.IsZero() && v.Kind() != reflect.Bool {
		return nil
	}
	switch known := v.Interface().(type) {
	case Secret, Key, Store:
		return masked
	case time.Duration:
		return duration(known)
	case Upstream, Token: // they would write themselves in a line
		return s.settings(v)
	case fmt.Stringer:
		return s.text(known.String())
	case encoding.TextMarshaler:
		text, err := known.MarshalText()
		if err != nil {
			return masked
		}
		return s.text(string(text))
	}
	return s.plain(v)
}

// duration writes a duration as people do: 5m, not 5m0s.
func duration(d time.Duration) string {
	text := d.String()
	for _, rest := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, rest) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// plain returns what a value without a text of its own is shown as.
func (s *shower) plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		return s.value(v.Elem())
	case reflect.Struct:
		return s.settings(v)
	case reflect.Array: // of bytes: a hash
		return masked
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // JSON
			return s.text(string(v.Bytes()))
		}
		var all []any
		for i := range v.Len() {
			if value := s.value(v.Index(i)); value != nil {
				all = append(all, value)
			}
		}
		if all == nil {
			return nil
		}
		return all
	case reflect.Map: // of headers and variables
		var names []string
		for _, key := range v.MapKeys() {
			names = append(names, key.String())
		}
		slices.Sort(names)
		var all Settings
		for _, name := range names {
			all = append(all, Setting{name, masked})
		}
		return all
	case reflect.String:
		return s.text(v.String())
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int64:
		return v.Int()
	case reflect.Float64:
		return v.Float()
	default:
		return masked
	}
}

// text returns a text, masked if it came from env or file: as it is, or with changes such as a
// slash less.
func (s *shower) text(text string) string {
	const long = 8 // shorter ones are parts of ordinary words
	for _, sensitive := range s.sensitive {
		if text == sensitive || len(sensitive) >= long && strings.Contains(text, sensitive) || len(text) >= long && strings.Contains(sensitive, text) {
			return masked
		}
	}
	return hideParameters(text)
}

// settingName turns the name of a field into that of a setting, as attributes are spelled.
func settingName(field string) string {
	field = strings.NewReplacer("OAuth", "Oauth", "WellFormed", "Wellformed").Replace(field)
	var name strings.Builder
	runes := []rune(field)
	for i, r := range runes {
		isStart := unicode.IsUpper(r) && i > 0 &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]) && string(runes[i+1:]) != "s")
		if isStart {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

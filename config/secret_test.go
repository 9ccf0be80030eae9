package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// dump prints a value in every way that Go offers.
func dump(t *testing.T, v any) string {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	all.Write(encoded)
	slog.New(slog.NewTextHandler(&all, nil)).Info("dump", "value", v)
	slog.New(slog.NewJSONHandler(&all, nil)).Info("dump", "value", v)
	for _, format := range []string{"%v", "%+v", "%#v"} {
		fmt.Fprintf(&all, format, v)
		fmt.Fprintf(&all, format, reflect.Indirect(reflect.ValueOf(v)))
	}
	return all.String()
}

func TestConfig_PrintsNoSecrets(t *testing.T) {
	for _, path := range []string{"everything.hcl", "outside.hcl"} {
		cfg := load(t, filepath.Join("testdata", "valid", path))
		cfg.Gateway.Instructions = "" // public by nature
		var all strings.Builder
		all.WriteString(dump(t, cfg))
		all.WriteString(dump(t, cfg.Auth))
		for _, u := range cfg.Upstreams() {
			all.WriteString(dump(t, u.TLS))
		}
		dumps := all.String()
		hash := sha256.Sum256([]byte("token"))
		for _, secret := range []string{"hunter2", "p@ss/word", "MIGHAgEAMBMGByqGSM49", "0123456789abcdef", hex.EncodeToString(hash[:8]), fmt.Sprint(hash)} {
			if strings.Contains(dumps, secret) {
				t.Errorf("%s: %q shows in:\n%s", path, secret, dumps)
			}
		}
	}
}

func TestMask_HidesWhatAServerRepeats(t *testing.T) {
	m := Upstream{
		URL: "https://h.example.com/hook-7f3a", maskedWords: []string{masked},
		Headers: map[string]Secret{"Authorization": NewSecret("Bearer tok-hunter2"), "X-Long": NewSecret("tok-hunter2-and-more")},
		Env: map[string]Secret{
			"KEY": NewSecret("line-one-x\nline-two-y\n"), "QUOTED": NewSecret(`pass"word\1`), "SHORT": NewSecret("1"),
		},
		OAuth: &OAuth{ClientSecret: NewSecret("client-secret")},
	}.Mask()
	for text, want := range map[string]string{
		`nothing of that, 1 tok`:           `nothing of that, 1 tok`,
		`cut: tok-`:                        `cut: (sensitive)`,
		`duplicate name "tok-hunter2"`:     `duplicate name "(sensitive)"`,
		`Bearer tok-hunter2 is bad`:        `(sensitive) is bad`,
		`tok-hunter2-and-more`:             `(sensitive)`,
		`cut: tok-hunter2-and`:             `cut: (sensitive)`,
		`cut: tok-hunt`:                    `cut: (sensitive)`,
		`cut: "tok-hunter… (9 bytes)"`:     `cut: "(sensitive)… (9 bytes)"`,
		`cut: tok-hunte... in an object`:   `cut: (sensitive)... in an object`,
		`tok-hunts are no tokens`:          `tok-hunts are no tokens`,
		`cannot reach redis://a:pw@host`:   `cannot reach redis://a:(sensitive)@host`,
		`a=b;pwd=x y;z ://u:p@h ://v:q@h`:  `a=b;pwd=(sensitive);z ://u:(sensitive)@h ://v:(sensitive)@h`,
		`as "pass\"word\\1" in JSON`:       `as "(sensitive)" in JSON`,
		`second line: line-two-y`:          `second line: (sensitive)`,
		`client-secretclient-secret`:       `(sensitive)(sensitive)`,
		`at https://h.example.com/hook-7f`: `at (sensitive)`,
	} {
		if got := m.Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
	if err := m.Error(errors.Join(io.EOF, errors.New("client-secret"))); !errors.Is(err, io.EOF) || strings.Contains(err.Error(), "client") {
		t.Errorf("Error = %v", err)
	}
	if err := m.Error(io.EOF); err != io.EOF { //nolint:errorlint // it must stay the same
		t.Errorf("Error(io.EOF) = %v", err)
	}
	if got := (Mask{}).Text("text"); got != "text" {
		t.Errorf("the zero Mask makes %q of text", got)
	}
}

// A key may be printed over more lines than anybody keeps.
func TestMask_HidesTheRestOfALongSecret(t *testing.T) {
	var key strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&key, "%x.", i)
	}
	long := key.String()
	m := Upstream{Env: map[string]Secret{"KEY": NewSecret(long)}}.Mask()
	if got := m.Line(long[2_000:6_000], long[6_000:6_100]); got != "(sensitive)" {
		t.Errorf("the line is shown as %q", got)
	}
	if got := m.Line(long[5_990:6_000], long[6_000:6_100]); got != long[6_000:6_100] {
		t.Errorf("after ten bytes of what may be a word, the line is shown as %q", got)
	}
}

func TestMask_HidesTheRestOfASecretOnTheNextLine(t *testing.T) {
	m := Upstream{Env: map[string]Secret{
		"KEY": NewSecret("hunter2-abcdefghijkl"), "PHRASE": NewSecret("correct horse battery staple"),
		"BYTES": NewSecret("\xff\xfe\xfd-of-no te\xffxt"),
		"TABS":  NewSecret("one-two\tthree-four"),
	}}.Mask()
	for _, test := range []struct{ before, line, want string }{
		{"", "defghijkl", "defghijkl"},
		{"KEY is hunter2-abc", "defghijkl and more", "(sensitive) and more"},
		{"KEY is h", "unter2-abcdefghijkl", "(sensitive)"},
		{"KEY is hunter2-abc", "def", "(sensitive)"},
		{"KEY is hunter2-abcdef", "ghijkl, hunter2-abcd", "(sensitive), (sensitive)"},
		{"KEY is hunter2-abc", "default", "default"},
		{"a path", "unter", "unter"},
		{"hunter2-abcdefghijkl", "ghijkl", "ghijkl"},
		{"PHRASE is correct horse", "battery staple.", "(sensitive)."},
		{"PHRASE is correct horse", "battery", "(sensitive)"},
		{"a horse", "battery staple", "battery staple"},
		{"PHRASE is correct\thorse", "battery\tstaple.", "(sensitive)."},
		{"TABS are one-two\t", "three-four.", "(sensitive)."},
		{"TABS are one-", "two\tthree-four.", "(sensitive)."},
		{"h", "u", "u"},
		{"BYTES are \xff\xfe\xfd-of-", "no te\xffxt", "(sensitive)"},
	} {
		if got := m.Line(test.before, test.line); got != test.want {
			t.Errorf("Line(%q, %q) = %q, want %q", test.before, test.line, got, test.want)
		}
	}
}

// A secret that is written out in an address or a command is masked.
func TestHideWords_HideWhatIsNamedLikeASecret(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example.com/mcp?api_key=hunter&page=2&access_token=x%20y#f": "https://a.example.com/mcp?api_key=(sensitive)&page=2&access_token=(sensitive)#f",
		"https://a.example.com/mcp?page=2":                                     "https://a.example.com/mcp?page=2",
		"a=b":                                                                  "a=b",
		"postgresql://app:hunter2@db/shop?x=1 and mysql://b:c@d":               "postgresql://app:(sensitive)@db/shop?x=1 and mysql://b:(sensitive)@d",
		"https://app@db.example.com:8080/a@b":                                  "https://app@db.example.com:8080/a@b",
		"Server=db;Password=hunter two;Encrypt=true":                           "Server=db;Password=(sensitive);Encrypt=true",
		"host=db pwd=hunter2 sslmode=require":                                  "host=db pwd=(sensitive) sslmode=require",
	} {
		if got := hideParameters(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, test := range [][2]string{
		{"server|--token=hunter|--name=x", "server|--token=(sensitive)|--name=x"},
		{"server|--api-key|hunter|--verbose|x", "server|--api-key|(sensitive)|--verbose|x"},
		{"server|--no-token|--name|x", "server|--no-token|--name|x"},
		{"env|API_TOKEN=hunter|HOME=/x|server", "env|API_TOKEN=(sensitive)|HOME=/x|server"},
		{"mcp-remote|https://a.example.com/?token=hunter|--header|Authorization: Bearer hunter", "mcp-remote|https://a.example.com/?token=(sensitive)|--header|Authorization: (sensitive)"},
		{"server|--token", "server|--token"},
		{"mysql|-pHunter2|-u|app|-p|-port|-p8080:80|-p=1", "mysql|-p(sensitive)|-u|app|-p|-port|-p8080:80|-p=1"},
	} {
		if got := strings.Join(hideWords(strings.Split(test[0], "|")), "|"); got != test[1] {
			t.Errorf("%s: %s, want %s", test[0], got, test[1])
		}
	}
}

package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
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
		for _, secret := range []string{"hunter2", "0123456789abcdef", hex.EncodeToString(hash[:8]), fmt.Sprint(hash)} {
			if strings.Contains(dumps, secret) {
				t.Errorf("%s: %q shows in:\n%s", path, secret, dumps)
			}
		}
	}
}

package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStore_ReadsEveryForm(t *testing.T) {
	for text, want := range map[string]Store{
		"redis://store":               {Addresses: []string{"store:6379"}},
		"redis://store/":              {Addresses: []string{"store:6379"}},
		"redis://10.0.0.7:7000/3":     {Addresses: []string{"10.0.0.7:7000"}, Database: 3},
		"redis://[::1]":               {Addresses: []string{"[::1]:6379"}},
		"redis://:p%40ss@[fd00::7]:1": {Addresses: []string{"[fd00::7]:1"}, Password: "p@ss"},
		"rediss://ann:secret@a,b:1,c/0": {
			Addresses: []string{"a:6379", "b:1", "c:6379"}, Username: "ann", Password: "secret", Encrypted: true,
		},
		"redis://:x@a,b:1/2?master_set=main": {
			Addresses: []string{"a:26379", "b:1"}, Password: "x", Database: 2, MasterSet: "main",
		},
		"redis://a?master_set=main&sentinel_password=y%26z": {
			Addresses: []string{"a:26379"}, MasterSet: "main", SentinelPassword: "y&z",
		},
	} {
		got, err := parseStore(text)
		type plain Store // whose values a failure shows
		if diff := cmp.Diff(plain(want), plain(got)); err != nil || diff != "" {
			t.Errorf("parseStore(%q): %v (-want +got)\n%s", text, err, diff)
		}
	}
}

func TestParseStore_RefusesWithoutQuoting(t *testing.T) {
	for _, text := range []string{
		"", "store:6379", "http://hushhush@store", "redis://", "redis://hushhush@", "redis://hushhush@store:", "redis://hushhush@store:0",
		"redis://hushhush@a,,b", "redis://hushhush@a,a", "redis://hushhush@store/x", "redis://hushhush@store/-1", "redis://hushhush@store/99999",
		"redis://hushhush@store/0/1", "redis://hushhush@a,b/1", "redis://hushhush@store?db=1", "redis://hushhush@store?master_set=",
		"redis://hushhush@store?master_set=a&master_set=b", "redis://store?sentinel_password=hushhush", "redis://:hush%hush@store",
		"redis://:hush/hush@store", "redis://:hush#hush@store", "redis://hushhush@store#x", "redis://hushhush@2130706433",
	} {
		got, err := parseStore(text)
		if err == nil {
			t.Errorf("parseStore(%q) = %#v, want an error", text, fmt.Sprint(got.Addresses))
			continue
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("parseStore(%q) quotes a secret: %v", text, err)
		}
	}
}

func TestStore_HasAMask(t *testing.T) {
	store, err := parseStore("redis://hushhush:hushhush@hushhush.internal?master_set=hushhush&sentinel_password=hushhush")
	if text := store.Mask().Text("WRONGPASS hushhush"); err != nil || strings.Contains(text, "hushhush") {
		t.Errorf("the mask leaves %q, %v", text, err)
	}
}

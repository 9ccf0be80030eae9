package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/promptweir/promptweir/gateway/seal"
)

func TestValues_OpenOnlyForWhatTheyAreAbout(t *testing.T) {
	value, about := []byte("the list"), []byte("one connection, number 7")
	sealed := sealer(t, key(1), key(2)).Values("list").Seal(value, about)
	if bytes.Contains(sealed, value) || len(sealed) != len(value)+seal.ValueOverhead {
		t.Errorf("sealed: %q", sealed)
	}
	if again := sealer(t, key(1)).Values("list").Seal(value, about); bytes.Equal(again, sealed) {
		t.Error("equal values are sealed alike, so that their nonces do not differ")
	}
	for _, test := range []struct {
		name   string
		values *seal.Values
		sealed []byte
		about  string
		opens  bool
	}{
		{"on a replica", sealer(t, key(1)).Values("list"), sealed, string(about), true},
		{"of an earlier number", sealer(t, key(1)).Values("list"), sealed, "one connection, number 6", false},
		{"of another connection", sealer(t, key(1)).Values("list"), sealed, "another, number 7", false},
		{"of another purpose", sealer(t, key(1)).Values("lists"), sealed, string(about), false},
		{"with another first key", sealer(t, key(2), key(1)).Values("list"), sealed, string(about), false},
		{"cut off", sealer(t, key(1)).Values("list"), sealed[:len(sealed)-1], string(about), false},
		{"empty", sealer(t, key(1)).Values("list"), nil, string(about), false},
	} {
		opened, err := test.values.Open(bytes.Clone(test.sealed), []byte(test.about))
		if test.opens != (err == nil) || test.opens && !bytes.Equal(opened, value) || err != nil && !errors.Is(err, seal.ErrMalformed) {
			t.Errorf("%s: Open = %q, %v", test.name, opened, err)
		}
	}
}

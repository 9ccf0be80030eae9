package config

import (
	"log/slog"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

const masked = hclread.Masked

// Secret is a value that never shows itself: every way of printing it prints a mask.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value, for the one place that puts it on the wire.
func (s Secret) Reveal() string { return s.value }

func (Secret) String() string { return masked }

// GoString masks the value under %#v.
func (Secret) GoString() string { return masked }

// LogValue masks the value in a log.
func (Secret) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText masks the value in JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// Key is 32 bytes of key material that never show themselves. The zero Key stands for none.
type Key struct{ bytes [32]byte }

// Reveal returns the key material.
func (k Key) Reveal() [32]byte { return k.bytes }

func (Key) String() string { return masked }

// GoString masks the key under %#v.
func (Key) GoString() string { return masked }

// LogValue masks the key in a log.
func (Key) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalText masks the key in JSON.
func (Key) MarshalText() ([]byte, error) { return []byte(masked), nil }

package config

import "testing"

func TestParseSelector_ReadsWhatStringWrites(t *testing.T) {
	for _, s := range []string{"*", "user:alice@example.com", "user:corp/alice", "group:a:b", "team:search"} {
		if sel, err := ParseSelector(s); err != nil || sel.String() != s {
			t.Errorf("ParseSelector(%q) = %v, %v", s, sel, err)
		}
	}
	for _, s := range []string{"", "alice", "user:", "*:x", "role:x", "user:a b", "User:a", "user:\x00"} {
		if sel, err := ParseSelector(s); err == nil {
			t.Errorf("ParseSelector(%q) = %v, want an error", s, sel)
		}
	}
}

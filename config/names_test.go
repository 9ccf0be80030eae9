package config_test

import (
	"testing"

	"github.com/promptweir/promptweir/config"
)

func TestHiddenIn_LetsPassWhatEmojiAndScriptsNeed(t *testing.T) {
	for _, name := range []string{
		"", "review", "grü\u00dfe", "\U0001f600", "\u2764\ufe0f", "\u2764\ufe0e.x", "1\ufe0f\u20e3", "\u00a9\ufe0f",
		"\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f3f3\ufe0f\u200d\U0001f308", "\U0001f9d1\U0001f3fd\u200d\u2695\ufe0f",
		"\u0646\u0627\u0645\u0647\u200c\u0647\u0627", "p.\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", // Persian
		"\u0915\u094d\u200d\u0937", "\u0930\u093e\u091c\u094d\u200c\u092e", // Hindi
	} {
		if r, hides := config.HiddenIn(name); hides {
			t.Errorf("%+q hides %U", name, r)
		}
	}
	for name, want := range map[string]rune{
		"a\ufe0f": '\ufe0f', "\u2764\ufe0f\ufe0f": '\ufe0f', "\u2764\ufe0e\ufe0f": '\ufe0f', "\ufe0f": '\ufe0f', "\u2764\ufe00": '\ufe00',
		"\U0001f469\u200d": '\u200d', "\U0001f469\u200da": '\u200d', "a\u200d\U0001f469": '\u200d', "\U0001f469\u200d\u200d\U0001f467": '\u200d',
		"1\u200d1": '\u200d', "\U0001f469\u200c\U0001f467": '\u200c', "a\u200cb": '\u200c', "a\u200d\u0937": '\u200d', "\u0647\u200c": '\u200c',
		"\u0647\u200c\u200c\u0647": '\u200c', "\u0647\u200d\u0647": '\u200d', "\u0915\u094d\u200d": '\u200d', "\u0915\u094d\u200d\u200d\u0937": '\u200d',
		"\u2764\ufe0f\u202e": '\u202e', "\U0001f3f4\U000e0067\U000e007f": '\U000e0067', "\u0647\u200f\u0647": '\u200f', "\u0647\u200c.\u0647": '\u200c',
	} {
		if r, hides := config.HiddenIn(name); !hides || r != want {
			t.Errorf("%+q hides %U, %t, want %U", name, r, hides, want)
		}
	}
}

func TestBare_IsOneForNamesThatLookAlike(t *testing.T) {
	for _, name := range []string{"v1", "v1\ufe0f", "v1\ufe0e", "v\u200c1"} {
		if got := config.Bare(name); got != "v1" {
			t.Errorf("%+q: %+q", name, got)
		}
	}
}

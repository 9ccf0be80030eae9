package hclread

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
)

// Suggest ends a sentence about a wrong name, with a question for the nearest known name if there is one.
func Suggest(name string, known []string) string {
	best := nearest(name, known)
	if best == "" {
		return "."
	}
	return fmt.Sprintf(". Did you mean %q?", best)
}

// Sentence ends the text of an error with a period, unless [Suggest] has ended it.
func Sentence(err error) string {
	text := err.Error()
	if strings.HasSuffix(text, "?") || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// nearest returns the known name that a wrong one most likely stands for, empty if none is near.
func nearest(name string, known []string) string {
	best, limit := "", len(name)/3+1 // one typo in three letters
	for _, k := range known {
		if d := distance(name, k); d <= limit && d < len(k) { // a distance of the whole length has nothing in common
			best, limit = k, d-1
		}
	}
	return best
}

// distance counts the typos in a name. Two neighbours that are swapped are one of them.
func distance(name, known string) int {
	at := 0
	for at < min(len(name), len(known)) && name[at] == known[at] {
		at++
	}
	if len(name) == len(known) && at+1 < len(name) && name[at] == known[at+1] && name[at+1] == known[at] && name[at+2:] == known[at+2:] {
		return 1
	}
	return levenshtein.Distance(name, known, nil)
}

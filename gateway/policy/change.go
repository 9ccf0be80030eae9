package policy

import (
	"fmt"

	"github.com/promptweir/promptweir/config"
)

// Sign says in which direction a [Change] goes.
type Sign string

// The directions of changes.
const (
	More  Sign = "+" // more prompts are visible, or to more principals
	Less  Sign = "-" // fewer prompts are visible, or to fewer principals
	Other Sign = "!" // neither, or it depends
)

// Change is one difference between two configurations in who sees which prompts, and under which
// names.
type Change struct {
	Sign Sign `json:"sign"`
	// Rule is where the block begins, as PATH:LINE: in the later configuration or, if it was
	// removed, in the earlier one.
	Rule string `json:"rule,omitempty"`
	// Text says it in words.
	Text string `json:"text"`
}

// differ collects changes.
type differ struct{ changes []Change }

func (d *differ) add(sign Sign, place config.Place, text string, args ...any) {
	d.changes = append(d.changes, Change{sign, ruleAt(place), fmt.Sprintf(text, args...)})
}

// ruleAt is where a block begins, "" if it is in no file.
func ruleAt(place config.Place) string {
	if place == (config.Place{}) {
		return ""
	}
	return place.String()
}

// ownerOf names whose a block is, as it continues a sentence.
func ownerOf(team string) string {
	if team == "" {
		return "of the gateway"
	}
	return fmt.Sprintf("of team %q", team)
}

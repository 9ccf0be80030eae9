package main

import (
	"slices"
	"strings"
	"testing"
)

// A row has medians, and the medians of the ratios to the program that it is compared with.
func TestRows_CompareWithinARound(t *testing.T) {
	c := contest{name: "get", programs: []program{{name: "new", against: "proxy"}, {name: "audit", against: "new"}, {name: "proxy"}}}
	got := c.rows([][]sample{
		{{40, 900, 1, 9, 70}, {50, 1000, 1, 10, 70}, {90, 1100, 1, 12, 71}},
		{{44, 900, 1, 9, 75}, {55, 900, 1, 10, 75}, {99, 880, 1, 12, 75}},
		{{40, 1000, 1, 9, 0}, {100, 2000, 1, 20, 0}, {90, 1000, 1, 10, 0}},
	})
	want := []string{
		"| get | new | 50.0 | 1000 | 1.00 | 10.0 | 70 | proxy | **1.000** (0.500–1.000) | **0.900** (0.500–1.100) | **1.000** (0.500–1.200) |",
		"| get | audit | 55.0 | 900 | 1.00 | 10.0 | 75 | new | **1.100** (1.100–1.100) | **0.900** (0.800–1.000) | **1.000** (1.000–1.000) |",
		"| get | proxy | 90.0 | 1000 | 1.00 | 10.0 | 0 |  |  |  |  |",
	}
	if lines := strings.Split(strings.TrimSpace(got), "\n"); !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestVerdict_NeedsQuietBeforeAndAfter(t *testing.T) {
	for _, test := range []struct {
		before, after float64
		want          string
	}{
		{0, 5, "used 0 % of the processors before the measurement and 5 % after it: the machine was quiet."},
		{6, 0, "used 6 % of the processors before the measurement and 0 % after it: the machine was busy."},
		{0, 6, "the machine was busy."},
	} {
		if got := verdict(test.before, test.after); !strings.Contains(got, test.want) {
			t.Errorf("verdict(%v, %v) = %s, want %s in it", test.before, test.after, got, test.want)
		}
	}
}

func TestBusy_IsAShare(t *testing.T) {
	if got, err := busy(t.Context()); err != nil || got < 0 || got > 100 {
		t.Errorf("busy = %v %%, %v", got, err)
	}
}

// Each program is compared with another one of its case, and so is an older build where one is named.
func TestContests_CompareWithAProgramOfTheCase(t *testing.T) {
	for _, against := range []string{"", "old"} {
		for _, c := range (&settings{against: against}).contests() {
			var names []string
			for _, p := range c.programs {
				names = append(names, p.name)
			}
			for _, p := range c.programs {
				if p.against != "" && !slices.Contains(names, p.against) || p.name == "older build" && p.build != against {
					t.Errorf("%s: %+v among %v", c.name, p, names)
				}
			}
			if (against != "") != slices.Contains(names, "older build") {
				t.Errorf("%s with -against %q has %v", c.name, against, names)
			}
		}
	}
}

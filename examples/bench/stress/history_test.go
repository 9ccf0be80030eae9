package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHistory_SaysWhoIsStaleAndWhoWasToldInVain(t *testing.T) {
	began := op{Client: 1, Name: "begin"}
	at := func(o op, seconds int) op { o.Received = time.Duration(seconds) * time.Second; return o }
	list := func(client, mark, seconds int) op {
		return at(op{Client: client, Name: "list", Mark: mark}, seconds)
	}
	told := func(client, seconds int) op { return at(op{Client: client, Name: "told"}, seconds) }
	failed := list(1, 0, 3)
	failed.Error = "refused"
	for name, test := range map[string]struct {
		history         history
		stale, unneeded []int
	}{
		"has listed nothing":         {history{began}, []int{1}, nil},
		"has listed it":              {history{began, list(1, 1, 1), told(1, 2), list(1, 2, 3)}, nil, nil},
		"has listed it too late":     {history{list(1, 1, 1), told(1, 2), list(1, 2, 9)}, []int{1}, nil},
		"was not told":               {history{list(2, 2, 1), list(1, 1, 1)}, []int{1}, nil},
		"could not list":             {history{list(1, 1, 1), told(1, 2), failed}, []int{1}, nil},
		"listed an old list last":    {history{list(1, 2, 1), told(1, 2), list(1, 1, 3)}, []int{1}, nil},
		"was told in vain":           {history{list(1, 2, 1), told(1, 2), list(1, 2, 3)}, nil, []int{1}},
		"listed again without being": {history{list(1, 2, 1), list(1, 2, 3)}, nil, nil},
		"was told in vain before":    {history{list(1, 2, 0), told(1, 0), list(1, 2, 1)}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.history.stale(2, 8*time.Second); !cmp.Equal(got, test.stale) {
				t.Errorf("stale = %v, want %v", got, test.stale)
			}
			if got := test.history.unneeded(time.Second); !cmp.Equal(got, test.unneeded) {
				t.Errorf("unneeded = %v, want %v", got, test.unneeded)
			}
		})
	}
}

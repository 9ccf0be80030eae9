package clientfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/promptweir/promptweir/config/clientfile"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestApply_ChangesOneMemberOnly(t *testing.T) {
	server := clientfile.Edit{Path: []string{"servers", "prompts"}, Value: map[string]string{"url": "http://a/?b&c"}}
	input := clientfile.Edit{Path: []string{"inputs"}, Value: map[string]string{"id": "x"}, IsElement: true}
	for name, test := range map[string]struct {
		edit         clientfile.Edit
		before, want string
	}{
		"no file":      {server, "", "{\n  \"servers\": {\n    \"prompts\": {\n      \"url\": \"http://a/?b&c\"\n    }\n  }\n}\n"},
		"empty object": {server, "{\n}\n", "{\n  \"servers\": {\n    \"prompts\": {\n      \"url\": \"http://a/?b&c\"\n    }\n  }\n}\n"},
		"comments, tabs, commas at the end, a byte order mark": {
			server,
			"\ufeff{ // mine\n\t\"x\": [1,],\n\t\"servers\": { /* {} */\n\t\t// \"prompts\"\n\t\t\"other\": {\"prompts\": 1,},\n\t},\n}",
			"\ufeff{ // mine\n\t\"x\": [1,],\n\t\"servers\": {\n\t\t\"prompts\": {\n\t\t\t\"url\": \"http://a/?b&c\"\n\t\t}, /* {} */\n\t\t// \"prompts\"\n\t\t\"other\": {\"prompts\": 1,},\n\t},\n}",
		},
		"another address":    {server, `{"servers": {"prompts" : {"url": "old"}, "z": 1}}`, "{\"servers\": {\"prompts\" : {\n      \"url\": \"http://a/?b&c\"\n    }, \"z\": 1}}"},
		"nothing to change":  {server, `{"servers":{"prompts":{ "url":"http:\/\/a/?b&c" }}} // all`, `{"servers":{"prompts":{ "url":"http:\/\/a/?b&c" }}} // all`},
		"no list":            {input, `{"servers":{}}`, "{\n  \"inputs\": [\n    {\n      \"id\": \"x\"\n    }\n  ],\"servers\":{}}"},
		"an empty list":      {input, `{"inputs":[]}`, "{\"inputs\":[\n    {\n      \"id\": \"x\"\n    }\n  ]}"},
		"a list":             {input, `{"inputs":[{"id":"y"}]}`, "{\"inputs\":[\n    {\n      \"id\": \"x\"\n    },{\"id\":\"y\"}]}"},
		"a list that has it": {input, `{"inputs":[{"id":"x"}]}`, `{"inputs":[{"id":"x"}]}`},
	} {
		before := []byte(test.before)
		got, err := clientfile.Apply(before, test.edit)
		upstreamtest.Equal(t, test.before, string(before), "%s: the text before", name)
		if diff := cmp.Diff(test.want, string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		if again, err := clientfile.Apply(got, test.edit); err != nil || string(again) != string(got) {
			t.Errorf("%s, again: %v\n%s", name, err, again)
		}
	}
	for before, edit := range map[string]clientfile.Edit{
		`{"servers": [`:   server,
		`[]`:              server,
		`{"servers": []}`: server,
		`{"inputs": {}}`:  input,
		`{"servers": {}, "servers": {"other": 1}}`: server, // of which clients read the last
	} {
		if got, err := clientfile.Apply([]byte(before), edit); err == nil {
			t.Errorf("%s becomes %s, want an error", before, got)
		}
	}
}

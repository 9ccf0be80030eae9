package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The variable's token is for one gateway, not for every server on a command line.
func TestCredential_IsForItsAddressOnly(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	for _, test := range []struct {
		own  string
		args []string
		want string
	}{
		{"", []string{"--url", server.URL + "/mcp"}, ""},
		{"https://prompts.example.com/mcp", []string{"--url", server.URL + "/mcp"}, ""},
		{"%zz", []string{"--url", server.URL + "/mcp"}, ""},
		{server.URL, []string{"--url", server.URL + "/mcp"}, "Bearer hunter2"},
		{server.URL + "/mcp", nil, "Bearer hunter2"},
		{"https://prompts.example.com/mcp", []string{"--url", server.URL + "/mcp", "--token", "given"}, "Bearer given"},
	} {
		t.Setenv("PROMPTWEIR_TOKEN", "hunter2")
		t.Setenv("PROMPTWEIR_URL", test.own)
		t.Setenv("PROMPTWEIR_CONFIG", "")
		got = ""
		code := run(t.Context(), append([]string{"list"}, test.args...), streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
		if got != test.want || code != exitFailed {
			t.Errorf("%+v: the server gets %q, exit code %d", test, got, code)
		}
	}
	var said strings.Builder
	args := []string{"list", "--url", "http://192.0.2.1/mcp", "--token", "given"}
	if code := run(t.Context(), args, streams{in: strings.NewReader(""), out: io.Discard, err: &said}); code != exitUsage || !strings.Contains(said.String(), "over http") {
		t.Errorf("a token over http: exit code %d, %s", code, said.String())
	}
}

package client

import (
	"net/http"
	"testing"
)

// writes counts calls.
type writes int

func (w *writes) Write(p []byte) (int, error) {
	*w++
	return len(p), nil
}

func TestSetBody_LeavesInOneWriteWithTheHeader(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	setBody(r, []byte(`{"jsonrpc":"2.0"}`))
	var n writes
	if err := r.Write(&n); err != nil || n != 1 {
		t.Errorf("%d writes, %v, want one", n, err)
	}
}

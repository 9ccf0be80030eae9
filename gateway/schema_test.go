package gateway_test

import (
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// conform holds a message against the schemas of the revision. Method is what a response answers.
func conform(t testing.TB, revision, method, body string) {
	t.Helper()
	if err := upstreamtest.Violation(revision, method, []byte(body)); err != nil {
		t.Error(err)
	}
}

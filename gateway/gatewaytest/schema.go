package gatewaytest

import (
	"testing"

	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

// CheckSchema fails the test if a message violates the JSON schema of a revision. Method is that of
// the request which the message answers, if it is a response.
func CheckSchema(tb testing.TB, revision, method, message string) {
	tb.Helper()
	if err := upstreamtest.Violation(revision, method, []byte(message)); err != nil {
		tb.Error(err)
	}
}

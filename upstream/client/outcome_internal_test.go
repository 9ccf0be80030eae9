package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/promptweir/promptweir/upstream/wire"
)

// The rows of the table that describes Outcome.
func TestOutcomeOf_IsThatOfTheTable(t *testing.T) {
	t.Parallel()
	status := func(code int) error { return &StatusError{Status: code} }
	answer := wire.NewError(wire.InvalidParams, "no")
	const no, yes = false, true
	for _, test := range []struct {
		kind                            string
		err                             error
		reason                          Reason
		answered, mayBeLost, suspicious bool
	}{
		{"nil", nil, "", yes, no, no},
		{"lost", ErrSessionLost, Unreachable, yes, no, no},
		{"401", status(http.StatusUnauthorized), Denied, yes, yes, no},
		{"403", status(http.StatusForbidden), Denied, yes, yes, no},
		{"429", status(http.StatusTooManyRequests), RateLimited, yes, no, no},
		{"502", status(http.StatusBadGateway), Unreachable, no, no, yes},
		{"504", status(http.StatusGatewayTimeout), Unreachable, no, no, yes},
		{"503", status(http.StatusServiceUnavailable), Unreachable, no, yes, yes},
		{"503 with Retry-After", &StatusError{Status: http.StatusServiceUnavailable, RetryAfter: time.Second}, Unreachable, no, no, yes},
		{"408", status(http.StatusRequestTimeout), BadResponse, no, no, yes},
		{"other 4xx", status(http.StatusNotFound), BadResponse, yes, yes, no},
		{"3xx", status(http.StatusFound), BadResponse, no, no, yes},
		{"other 5xx", status(http.StatusInternalServerError), BadResponse, no, yes, yes},
		{"5xx with an error", &StatusError{Status: http.StatusInternalServerError, unnamed: answer}, BadResponse, yes, yes, no},
		{"not MCP", &ProtocolError{foreign: true}, BadResponse, no, no, yes},
		{"cut off", &ProtocolError{oversized: true}, BadResponse, no, no, yes},
		{"invalid", &ProtocolError{}, BadResponse, yes, no, yes},
		{"error", answer, BadResponse, yes, yes, no},
		{"-32042", wire.NewError(wire.URLElicitationRequired, ""), BadResponse, yes, no, no},
		{"-32021", wire.NewError(wire.MissingClientCapability, ""), BadResponse, yes, no, no},
		{"list", &ListError{}, Unreachable, yes, no, no},
		{"time", &stageError{error: context.DeadlineExceeded}, Timeout, no, no, yes},
		{"left", context.Canceled, Unreachable, no, no, no},
		{"broke off", &startedError{io.ErrUnexpectedEOF}, BadResponse, no, no, yes},
		{"broke", io.ErrUnexpectedEOF, Unreachable, no, no, yes},
	} {
		got := OutcomeOf(test.err)
		if got.Reason != test.reason || got.Answered != test.answered || got.MayBeLost != test.mayBeLost || got.Suspicious != test.suspicious {
			t.Errorf("%s: %+v", test.kind, got)
		}
		if test.err == nil {
			continue
		}
		_, isStatus := errors.AsType[*StatusError](test.err)
		if wrapped := OutcomeOf(fmt.Errorf("prompts/get: %w", test.err)); wrapped != got {
			t.Errorf("%s: wrapped %+v, want %+v", test.kind, wrapped, got)
		}
		if started := OutcomeOf(&startedError{test.err}); !started.Started || isStatus && started.Reason != got.Reason {
			t.Errorf("%s: started %+v", test.kind, started)
		}
	}
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests} {
		if o := OutcomeOf(&StatusError{Status: code, unnamed: answer}); o.Answer != nil {
			t.Errorf("HTTP %d speaks of the gateway, and its body is taken for the answer %v", code, o.Answer)
		}
	}
}

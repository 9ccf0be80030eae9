package transport

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/metric"

	"github.com/promptweir/promptweir/gateway/identity"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/snapshot"
	"github.com/promptweir/promptweir/upstream"
	"github.com/promptweir/promptweir/upstream/wire"
)

// retryIdentity is the Retry-After in seconds if an issuer's keys cannot be fetched.
const retryIdentity = "5"

// authenticate returns the caller of the request. If it cannot, it responds with an error and returns
// false: 400 for a token in the URL, 401 for a missing or bad credential, 403 for a missing scope, 503
// if an issuer's keys cannot be fetched.
func (x *exchange) authenticate(id jsontext.Value) (snapshot.Caller, bool) {
	if x.r.URL.RawQuery != "" && x.r.URL.Query().Has("access_token") {
		// Refuse a token in the URL: intermediaries write URLs to their logs.
		x.refuse(http.StatusBadRequest, id,
			wire.NewError(wire.InvalidRequest, "Bad request: a token belongs in the Authorization header"))
		return snapshot.Caller{}, false
	}
	caller, err := x.snapshot.Authenticate(x.r.Context(), credentialOf(x.r, x.snapshot.Identity.Header()))
	if err != nil {
		x.refuseCaller(id, err)
		return snapshot.Caller{}, false
	}
	if !caller.Principal.Anonymous {
		x.conn.Authenticated()
	}
	return caller, true
}

// awaitTried waits until each of the caller's upstreams has been listed or has failed once. Without
// this wait, clients that reconnect after a start would be notified several times while the catalog
// fills up. If a reload refuses the caller during the wait, awaitTried responds and returns false.
func (x *exchange) awaitTried(caller *snapshot.Caller, id jsontext.Value) bool {
	s, err := x.t.publisher.AwaitTried(x.r.Context(), caller, x.snapshot)
	// Use the snapshot also after an error: the challenge must come from the configuration that
	// refuses the caller.
	x.snapshot = s
	if err != nil {
		x.refuseCaller(id, err)
	}
	return err == nil
}

// refuseCaller responds to a request whose credential was refused with err.
func (x *exchange) refuseCaller(id jsontext.Value, err error) {
	status, problem, reason := http.StatusUnauthorized, "Unauthorized: the credential is not valid", "bad"
	_, lacksScope := errors.AsType[*identity.ScopeError](err)
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		x.t.CountRefused(x.r.Context(), x.clientAddress(), "unavailable", err)
		x.w.Header().Set("Retry-After", retryIdentity)
		x.refuse(http.StatusServiceUnavailable, id,
			wire.NewError(wire.InternalError, "Service unavailable: the identity provider did not answer"))
		return
	case lacksScope:
		status, problem, reason = http.StatusForbidden, "Forbidden: the token lacks a required scope", "scope"
	case errors.Is(err, identity.ErrNoCredential):
		// Do not count this refusal: a client first sends a request without a credential to find the
		// issuer (RFC 9728).
		problem, reason = "Unauthorized: a bearer token is required", ""
	}
	if reason != "" {
		x.t.CountRefused(x.r.Context(), x.clientAddress(), reason, err)
	}
	x.w.Header().Set("WWW-Authenticate", x.snapshot.Identity.Challenge(err, metadataURL(x.r, x.snapshot)))
	x.refuse(status, id, wire.NewError(wire.InvalidRequest, problem))
}

// CountRefused counts and logs a refused credential. client is the network address.
func (t *Transport) CountRefused(ctx context.Context, client, reason string, err error) {
	t.refused.Add(ctx, 1, metric.WithAttributes(upstream.AttrReason.String(reason)))
	t.refusals.InfoContext(ctx, "credential refused",
		slog.String("reason", reason), slog.String("client", client), slog.Any("error", err))
}

// credentialOf returns the credential of a request: the token in the header or, without the header,
// the client certificate of the connection. It keeps no reference to the request.
func credentialOf(r *http.Request, header string) identity.Credential {
	values := r.Header[header]
	if len(values) == 0 && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		certificate := r.TLS.VerifiedChains[0][0]
		return func(_ context.Context, a *identity.Authenticator) (policy.Principal, error) {
			return a.FromCertificate(certificate)
		}
	}
	if len(values) == 0 {
		return noCredential
	}
	value := strings.Join(values, ", ") // invalid if there are several values
	return func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
		return a.FromHeader(ctx, header, value)
	}
}

// noCredential authenticates a request that has no credential. It is shared, because a closure would cost an allocation.
func noCredential(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
	return a.FromHeader(ctx, "", "")
}

// clientAddress returns the network address of the client, see [identity.ClientAddress].
func (x *exchange) clientAddress() string {
	if x.client != "" {
		return x.client
	}
	return identity.ClientAddress(x.r, &x.snapshot.Config.Gateway)
}

// clockCheck is the interval at which a credential's expiry is compared with the clock. One timer for
// the whole time is not enough: timers ignore changes of the clock, and stop while the machine sleeps.
const clockCheck = 30 * time.Second

// withExpiry returns a context that ends at a time of the clock, with [context.DeadlineExceeded] as its
// cause. It does not end if expiry is zero.
func withExpiry(ctx context.Context, expiry time.Time) (context.Context, context.CancelFunc) {
	return withExpiryBy(ctx, expiry, time.Now)
}

func withExpiryBy(ctx context.Context, expiry time.Time, now func() time.Time) (context.Context, context.CancelFunc) {
	if expiry.IsZero() {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	expiry = expiry.Round(0) // Round(0) removes the monotonic reading: compare by the clock
	var timer *time.Timer
	check := func() {
		left := expiry.Sub(now().Round(0))
		if left <= 0 {
			cancel(context.DeadlineExceeded)
		}
		if ctx.Err() == nil {
			timer.Reset(min(left, clockCheck))
		}
	}
	timer = time.AfterFunc(clockCheck, check)
	check()
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// hasExpired reports whether a context of withExpiry has ended at its expiry.
func hasExpired(ctx context.Context) bool {
	return context.Cause(ctx) == context.DeadlineExceeded //nolint:errorlint // withExpiry's own value
}

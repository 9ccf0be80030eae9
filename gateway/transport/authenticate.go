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

// retryIdentity is the Retry-After if an issuer cannot be reached, in seconds.
const retryIdentity = "5"

// authenticate returns the caller of the request. Otherwise it responds: 400 for a token in the
// URL, 401 without a valid credential, 403 for a token without a required scope, 503 if an issuer
// cannot be reached.
func (x *exchange) authenticate(id jsontext.Value) (snapshot.Caller, bool) {
	if x.r.URL.RawQuery != "" && x.r.URL.Query().Has("access_token") {
		// A token in the URL would appear in the logs of every intermediary.
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

// awaitTried waits at the start until the caller's upstreams have answered or failed once.
// Otherwise clients that reconnect would be notified while the catalog fills up. If a reload has
// refused the caller, awaitTried responds to the request.
func (x *exchange) awaitTried(caller *snapshot.Caller, id jsontext.Value) bool {
	s, err := x.t.publisher.AwaitTried(x.r.Context(), caller, x.snapshot)
	// Use the snapshot also after an error: the refusal has the challenge of its configuration.
	x.snapshot = s
	if err != nil {
		x.refuseCaller(id, err)
	}
	return err == nil
}

// refuseCaller responds to a request with a refused credential.
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
		// Do not count this: clients begin without a credential to find the issuer (RFC 9728).
		problem, reason = "Unauthorized: a bearer token is required", ""
	}
	if reason != "" {
		x.t.CountRefused(x.r.Context(), x.clientAddress(), reason, err)
	}
	x.w.Header().Set("WWW-Authenticate", x.snapshot.Identity.Challenge(err, metadataURL(x.r, x.snapshot)))
	x.refuse(status, id, wire.NewError(wire.InvalidRequest, problem))
}

// CountRefused counts and logs a refused credential.
func (t *Transport) CountRefused(ctx context.Context, client, reason string, err error) {
	t.refused.Add(ctx, 1, metric.WithAttributes(upstream.AttrReason.String(reason)))
	t.refusals.InfoContext(ctx, "credential refused",
		slog.String("reason", reason), slog.String("client", client), slog.Any("error", err))
}

// credentialOf returns the credential of a request: the token in the header or otherwise the
// certificate of the connection. It keeps no reference to the request.
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
	value := strings.Join(values, ", ") // two values are never valid
	return func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
		return a.FromHeader(ctx, header, value)
	}
}

// noCredential is the credential of a request without one.
func noCredential(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
	return a.FromHeader(ctx, "", "")
}

// clientAddress returns the address of the client, see [identity.ClientAddress].
func (x *exchange) clientAddress() string {
	if x.client != "" {
		return x.client
	}
	return identity.ClientAddress(x.r, &x.snapshot.Config.Gateway)
}

// clockCheck is the interval at which the clock is compared with the expiry of a credential. Timers
// ignore changes of the clock, and stop while the machine sleeps.
const clockCheck = 30 * time.Second

// withExpiry returns a context that ends, with [context.DeadlineExceeded] as its cause, when a
// credential has expired according to the clock. The zero time means never.
func withExpiry(ctx context.Context, expiry time.Time) (context.Context, context.CancelFunc) {
	return withExpiryBy(ctx, expiry, time.Now)
}

func withExpiryBy(
	ctx context.Context, expiry time.Time, now func() time.Time,
) (context.Context, context.CancelFunc) {
	if expiry.IsZero() {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	expiry = expiry.Round(0) // without a monotonic reading, to compare with the clock
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

// hasExpired reports whether a context has ended because of the credential's expiry.
func hasExpired(ctx context.Context) bool {
	return context.Cause(ctx) == context.DeadlineExceeded //nolint:errorlint // withExpiry's own value
}

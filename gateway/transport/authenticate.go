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

// retryIdentity is when to try again after an issuer could not be reached, in seconds.
const retryIdentity = "5"

// authenticate returns who sends the request, or answers it: 401 without a valid credential, 403
// for a token that lacks a scope, and 503 if an issuer cannot be reached.
func (x *exchange) authenticate(id jsontext.Value) (snapshot.Caller, bool) {
	if x.r.URL.RawQuery != "" && x.r.URL.Query().Has("access_token") {
		// It would appear in the logs of every intermediary.
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

// settle waits at the start until the upstreams that matter to the caller have answered or failed
// once: clients that reconnect would otherwise be told of changes that are only the catalog filling
// up. Where a reload in the meantime does not accept the caller, it answers the request.
func (x *exchange) settle(caller *snapshot.Caller, id jsontext.Value) bool {
	s, err := x.t.publisher.Settle(x.r.Context(), caller, x.snapshot)
	// Even with an error: the refusal has the challenge of the configuration that refuses.
	x.snapshot = s
	if err != nil {
		x.refuseCaller(id, err)
	}
	return err == nil
}

// refuseCaller answers a request whose credential is not accepted.
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
		// Not counted: clients begin without a credential to learn who issues them (RFC 9728).
		problem, reason = "Unauthorized: a bearer token is required", ""
	}
	if reason != "" {
		x.t.CountRefused(x.r.Context(), x.clientAddress(), reason, err)
	}
	x.w.Header().Set("WWW-Authenticate", x.snapshot.Identity.Challenge(err, metadataURL(x.r, x.snapshot)))
	x.refuse(status, id, wire.NewError(wire.InvalidRequest, problem))
}

// CountRefused counts and logs a credential that was not accepted, for a reason.
func (t *Transport) CountRefused(ctx context.Context, client, reason string, err error) {
	t.refused.Add(ctx, 1, metric.WithAttributes(upstream.AttrReason.String(reason)))
	t.refusals.InfoContext(ctx, "credential refused",
		slog.String("reason", reason), slog.String("client", client), slog.Any("error", err))
}

// credentialOf returns the credential of a request: the token in the header or, without one, the
// certificate of its connection. It retains nothing else of the request.
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
	value := strings.Join(values, ", ") // of two, none is valid
	return func(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
		return a.FromHeader(ctx, header, value)
	}
}

// noCredential is the credential of a request without any.
func noCredential(ctx context.Context, a *identity.Authenticator) (policy.Principal, error) {
	return a.FromHeader(ctx, "", "")
}

// clientAddress returns the address of the client, see [identity.ClientAddress].
func (x *exchange) clientAddress() string {
	if x.client != "" {
		return x.client
	}
	return identity.ClientAddress(x.r, x.snapshot.Config.Gateway.TrustedProxies)
}

// clockCheck is how often the clock is compared with the time at which a credential expires: timers
// do not notice when the clock is set, and stand still while the machine sleeps.
const clockCheck = 30 * time.Second

// withExpiry returns a context that ends, with [context.DeadlineExceeded] as its cause, when the
// clock shows that a credential has expired; the zero time is never.
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
	expiry = expiry.Round(0) // without a monotonic reading: what counts is the clock
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

// hasExpired reports whether a context has ended since the credential had expired.
func hasExpired(ctx context.Context) bool {
	return context.Cause(ctx) == context.DeadlineExceeded //nolint:errorlint // withExpiry's own value
}

package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/semaphore"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// tokenTimeout bounds a request to the token endpoint.
	tokenTimeout = 10 * time.Second
	// renewBefore is the time between the renewal of a token and its expiry. For short lifetimes it is a quarter of the
	// lifetime.
	renewBefore = 30 * time.Second
	// tokenRetryPause is the minimum pause after a failed fetch. A Retry-After can make it longer.
	tokenRetryPause = time.Second
	// refusedPause is the pause before another token is fetched for a server that refused a new
	// token.
	refusedPause = 10 * time.Second
	// maxErrorCode bounds an error code of a token endpoint, in bytes. Errors do not contain longer codes.
	maxErrorCode = 64
	// assertionLife is the lifetime of a client assertion.
	assertionLife = time.Minute
)

// tokenSource fetches the access tokens of one upstream with client credentials (RFC 6749, section
// 4.4). It keeps the last token.
type tokenSource struct {
	oauth  *config.OAuth
	config clientcredentials.Config
	client *http.Client

	// slot guards the fields below, even during a fetch, so that only one token is fetched at a
	// time. It is a semaphore because callers stop waiting when their context ends.
	slot  *semaphore.Weighted
	token *oauth2.Token // nil before the first fetch
	// renewAt is the time at which the token is renewed, or zero if it is never renewed.
	renewAt time.Time
	// failure is the error of the last fetch, and no other fetch is made before failedUntil.
	// failure is nil after a success.
	failure     error
	failedUntil time.Time
	// Until refusedUntil, a refusal by the server is no reason to fetch another token.
	refusedUntil time.Time
}

// newTokenSource returns nil for an upstream without an oauth block.
func newTokenSource(server *config.Upstream, opts Options) *tokenSource {
	if server.OAuth == nil {
		return nil
	}
	transport := opts.Transport
	if transport == nil {
		transport = newTokenNetwork(server, opts.DialGuard)
	}
	t := &tokenSource{
		oauth: server.OAuth,
		config: clientcredentials.Config{
			TokenURL: server.OAuth.TokenURL, ClientID: server.OAuth.ClientID,
			ClientSecret: server.OAuth.ClientSecret.Reveal(), Scopes: server.OAuth.Scopes,
		},
		client: &http.Client{Transport: tokenTransport{transport}, CheckRedirect: noRedirects},
		slot:   semaphore.NewWeighted(1),
	}
	t.config.EndpointParams = url.Values{}
	if server.OAuth.Resource != "" {
		t.config.EndpointParams.Set("resource", server.OAuth.Resource)
	}
	return t
}

// newTokenNetwork returns the transport to the token endpoint. If the endpoint is on another host than the upstream, the
// server name of the tls block does not apply, and the system's authorities are trusted in addition to the configured
// ones: token endpoints are often public.
func newTokenNetwork(server *config.Upstream, dialGuard func(address string) error) *http.Transport {
	settings := tlsConfig(server.TLS)
	network := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			// The Origin and Fields of the link, for proxies that read plain HTTP, are not needed: a token endpoint without
			// TLS is on this machine.
			endpoint, err := url.Parse(server.OAuth.TokenURL)
			if err != nil {
				return nil, withoutURL(err)
			}
			link, err := dial(ctx, endpoint, server.OAuth.HostGrant, dialGuard)
			if err != nil {
				return nil, err
			}
			return link.Conn, nil
		},
		MaxIdleConns: 1, IdleConnTimeout: tokenTimeout, TLSClientConfig: settings, TLSHandshakeTimeout: dialTimeout,
		DisableCompression: true,
	}
	if server.TLS == nil || hostIn(server.OAuth.TokenURL) == hostIn(server.URL) {
		return network
	}
	settings.ServerName = ""
	if settings.RootCAs != nil {
		if system, err := x509.SystemCertPool(); err == nil {
			system.AppendCertsFromPEM([]byte(server.TLS.CAs.Reveal()))
			settings.RootCAs = system
		}
	}
	return network
}

// maxTokenResponse bounds the response of a token endpoint, in bytes.
const maxTokenResponse = 1 << 20

// tokenTransport carries requests to a token endpoint. Some servers send JSON as text/plain, or an
// expires_in with a fraction. tokenTransport turns these responses into the form of RFC 6749, which
// package oauth2 reads.
type tokenTransport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	came, err := t.RoundTripper.RoundTrip(r)
	if err != nil || came.StatusCode/100 != 2 {
		return came, err
	}
	defer came.Body.Close()
	body, err := io.ReadAll(io.LimitReader(came.Body, maxTokenResponse))
	if err != nil {
		return nil, err
	}
	object, err := wire.ParseObject(bytes.TrimPrefix(body, []byte(byteOrderMark)))
	if err == nil {
		if token, ok := object.Text("access_token"); ok && token == "" {
			return nil, &ProtocolError{problem: "the access token is empty"}
		}
		life := strings.Trim(string(object.Get("expires_in")), `"`)
		if seconds, err := strconv.ParseFloat(life, 64); err == nil {
			object = object.With("expires_in", wire.NumberID(int64(min(max(seconds, 0), math.MaxInt32))))
		}
		body = object.JSON()
		came.Header.Set("Content-Type", wire.ContentJSON)
	}
	came.Body, came.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return came, nil
}

// hostIn returns the host and port of a URL as written.
func hostIn(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// get returns an access token. It returns the refused token only if there is no other token. A nil
// source returns "".
func (t *tokenSource) get(ctx context.Context, refused string) (string, error) {
	if t == nil {
		return "", nil
	}
	if err := t.slot.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer t.slot.Release(1)
	now := time.Now()
	hasToken := t.token != nil
	isRefused := hasToken && refused == t.token.AccessToken
	switch {
	case hasToken && !isRefused && (t.renewAt.IsZero() || now.Before(t.renewAt)):
		return t.token.AccessToken, nil
	case isRefused && now.Before(t.refusedUntil):
		return refused, nil
	}
	err := t.failure
	if err == nil || !now.Before(t.failedUntil) {
		err = t.fetch(ctx)
	}
	// If the token endpoint is down, the old token is used until it expires.
	if err != nil && hasToken && !isRefused && now.Before(t.token.Expiry) {
		return t.token.AccessToken, nil
	}
	if err != nil {
		return "", err
	}
	// Some authorization servers return the same token until it expires, so wait before the next
	// fetch.
	if t.token.AccessToken == refused {
		t.refusedUntil = time.Now().Add(refusedPause)
	}
	return t.token.AccessToken, nil
}

// refused records that the server refused a token that was fetched after an earlier refusal.
func (t *tokenSource) refused(ctx context.Context) {
	if t.slot.Acquire(ctx, 1) == nil {
		t.refusedUntil = time.Now().Add(refusedPause)
		t.slot.Release(1)
	}
}

// fetch fetches a new token. The caller holds the slot.
func (t *tokenSource) fetch(caller context.Context) error {
	ctx, cancel := context.WithTimeout(caller, tokenTimeout)
	defer cancel()
	token, err := t.request(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	switch {
	case err != nil:
		err = tokenError(err)
	case strings.EqualFold(token.Type(), "Bearer"):
	case isErrorCode(strings.ToLower(token.TokenType)): // other text may be sensitive
		err = &ProtocolError{problem: fmt.Sprintf("token endpoint returned token type %q, want Bearer", token.TokenType)}
	default:
		err = &ProtocolError{problem: "token endpoint returned a token of an unknown type, want Bearer"}
	}
	if err != nil {
		if caller.Err() == nil { // the end of the caller's context says nothing about the token endpoint
			pause := tokenRetryPause
			if status, ok := errors.AsType[*StatusError](err); ok {
				pause = max(pause, status.RetryAfter)
			}
			t.failure, t.failedUntil = err, time.Now().Add(pause)
		}
		return err
	}
	t.token, t.failure, t.renewAt = token, nil, time.Time{}
	if !token.Expiry.IsZero() {
		t.renewAt = token.Expiry.Add(-min(renewBefore, time.Until(token.Expiry)/4))
	}
	return nil
}

// request sends a request to the token endpoint. A client with a key signs a new assertion each
// time.
func (t *tokenSource) request(ctx context.Context) (*oauth2.Token, error) {
	if t.oauth.PrivateKey.Reveal() == "" {
		return t.config.Token(ctx)
	}
	signed, err := assertion(t.oauth)
	if err != nil {
		return nil, err
	}
	// A new config each time: package clientcredentials supports constant parameters only.
	signing := clientcredentials.Config{
		TokenURL: t.config.TokenURL, ClientID: t.config.ClientID, Scopes: t.config.Scopes,
		AuthStyle: oauth2.AuthStyleInParams, EndpointParams: maps.Clone(t.config.EndpointParams),
	}
	signing.EndpointParams.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	signing.EndpointParams.Set("client_assertion", signed)
	return signing.Token(ctx)
}

// assertion returns a client assertion, signed with the client's key (RFC 7523, section 2.2).
func assertion(o *config.OAuth) (string, error) {
	key, err := o.Signer()
	if err != nil {
		return "", err
	}
	algorithm, err := signatureAlgorithm(key)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	// Without an issuer, the URL of the token endpoint identifies the authorization server (RFC 7523, section 3).
	audience, now := cmp.Or(o.Issuer, o.TokenURL), time.Now()
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: o.ClientID, Subject: o.ClientID, Audience: jwt.Audience{audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionLife)),
	}).Serialize()
}

func signatureAlgorithm(key crypto.Signer) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return jose.RS256, nil
	case ed25519.PrivateKey:
		return jose.EdDSA, nil
	case *ecdsa.PrivateKey:
		byCurve := map[elliptic.Curve]jose.SignatureAlgorithm{
			elliptic.P256(): jose.ES256, elliptic.P384(): jose.ES384, elliptic.P521(): jose.ES512,
		}
		if algorithm, ok := byCurve[key.Curve]; ok {
			return algorithm, nil
		}
	}
	return "", errors.New("private_key: unsupported kind of key, use RSA, Ed25519, or ECDSA with P-256, P-384 or P-521")
}

// tokenError replaces an error of package oauth2 by an error without sensitive text: it contains neither the address nor
// the error description of the token endpoint.
func tokenError(err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if _, ok := errors.AsType[*url.Error](err); ok {
			err = withoutURL(err)
			return &tokenEndpointError{text: "token endpoint: " + err.Error(), causes: []error{err}}
		}
		return &ProtocolError{problem: "token endpoint returned no access token"}
	}
	status := answer.Response.StatusCode
	problem := fmt.Sprintf("token endpoint: HTTP status %d %s", status, http.StatusText(status))
	if code := answer.ErrorCode; isErrorCode(code) {
		problem += ": " + code
	}
	refusal := newStatusError(status, answer.Response.Header)
	isRateLimit := status == http.StatusTooManyRequests
	switch {
	case isRateLimit, refusal.AsksForPause():
		return &tokenEndpointError{problem, isRateLimit, []error{refusal}}
	case status/100 == 3:
		return &tokenEndpointError{text: problem + ": redirects are not followed"}
	case status/100 == 5, status == http.StatusRequestTimeout:
		return &tokenEndpointError{text: problem}
	}
	// RFC 6749 uses 400 for most refusals. To operators, each of them means that access is denied.
	return &tokenEndpointError{problem, true, []error{&StatusError{Status: http.StatusUnauthorized}}}
}

// isErrorCode reports whether a text looks like an error code of RFC 6749.
func isErrorCode(code string) bool {
	return code != "" && len(code) <= maxErrorCode &&
		!strings.ContainsFunc(code, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
}

// tokenEndpointError is a failure or refusal of a token endpoint.
type tokenEndpointError struct {
	text      string
	isRefusal bool
	// causes holds the network's error, or a StatusError that counts as the upstream's own status: 401 for a
	// refusal, 429, or 503 with a Retry-After. It is empty for other failures.
	causes []error
}

func (e *tokenEndpointError) Error() string { return e.text }

func (e *tokenEndpointError) Unwrap() []error { return e.causes }

package upstream

import (
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
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/promptweir/promptweir/config"
)

const (
	// tokenBound is how long the token endpoint may take.
	tokenBound = 10 * time.Second
	// tokenMargin is how long before its end a token is replaced; where a quarter of its life is less, then that.
	tokenMargin = 30 * time.Second
	// tokenPause is how long a token endpoint that did not give a token is not asked again.
	tokenPause = time.Second
	// futilePause is how long a server that refused a token that was just made is not sent another one.
	futilePause = 10 * time.Second
	// maxOAuthCode bounds what of a token endpoint's error code is repeated, in bytes.
	maxOAuthCode = 64
)

// tokens gets the access tokens of one upstream by client credentials (RFC 6749, section 4.4) and keeps the last one.
type tokens struct {
	config clientcredentials.Config
	client *http.Client
	// assert signs for the client; nil where it has a secret.
	assert func() (string, error)

	// turn is held by whoever reads or writes what follows, and while a token is being got: nobody gets a second one.
	turn  chan struct{}
	token *oauth2.Token // nil before the first
	// renew is when the token is to be replaced; zero for never.
	renew time.Time
	// failure is why there was no token, and failed when.
	failure error
	failed  time.Time
	// futile is until when it makes no sense to replace a token because the server refused it.
	futile time.Time
}

// newTokens returns nil for an upstream without an oauth block.
func newTokens(u config.Upstream, forbidden func(address string) error) *tokens {
	if u.OAuth == nil {
		return nil
	}
	t := &tokens{
		config: clientcredentials.Config{
			TokenURL: u.OAuth.TokenURL, ClientID: u.OAuth.ClientID, ClientSecret: u.OAuth.ClientSecret.Reveal(), Scopes: u.OAuth.Scopes,
		},
		client: &http.Client{Transport: newTokenNetwork(u, forbidden), CheckRedirect: noRedirects},
		turn:   make(chan struct{}, 1),
	}
	t.config.EndpointParams = url.Values{}
	if u.OAuth.Resource != "" {
		t.config.EndpointParams.Set("resource", u.OAuth.Resource)
	}
	if u.OAuth.PrivateKey.Reveal() != "" {
		t.assert = func() (string, error) { return assertion(u.OAuth) }
	}
	return t
}

// newTokenNetwork is how the token endpoint of an upstream is reached. What its tls block says of the upstream's name is not
// for another host; and its authorities vouch beside those of the system, since a token endpoint is often everybody's.
func newTokenNetwork(u config.Upstream, forbidden func(address string) error) *http.Transport {
	network := newNetwork(1, u.TLS, forbidden)
	settings := network.TLSClientConfig
	at, err := url.Parse(u.OAuth.TokenURL)
	if u.TLS == nil || err != nil || slices.ContainsFunc(u.URLs, func(s string) bool {
		server, err := url.Parse(s)
		return err == nil && server.Host == at.Host
	}) {
		return network
	}
	settings.ServerName = ""
	if settings.RootCAs != nil {
		if system, err := x509.SystemCertPool(); err == nil {
			system.AppendCertsFromPEM([]byte(u.TLS.CAs.Reveal()))
			settings.RootCAs = system
		}
	}
	return network
}

// assertionLife is how long a client's assertion is good.
const assertionLife = time.Minute

// assertion is a client's word that it is itself, signed with its key (RFC 7523, section 2.2).
func assertion(o *config.OAuth) (string, error) {
	key, err := o.Signer()
	if err != nil {
		return "", err
	}
	algorithm, err := signatureOf(key)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	audience, now := o.Issuer, time.Now()
	if audience == "" {
		audience = o.TokenURL
	}
	return jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: o.ClientID, Subject: o.ClientID, Audience: jwt.Audience{audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionLife)),
	}).Serialize()
}

// signatureOf is the algorithm that a key is for.
func signatureOf(key crypto.Signer) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return jose.RS256, nil
	case ed25519.PrivateKey:
		return jose.EdDSA, nil
	case *ecdsa.PrivateKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
	}
	return "", errors.New("the private key is of a kind that does not sign here")
}

// get returns an access token, but not the one that was refused unless there is no other.
func (t *tokens) get(ctx context.Context, refused string) (string, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	now := time.Now()
	present := t.token != nil
	useless := present && refused == t.token.AccessToken
	switch {
	case present && !useless && (t.renew.IsZero() || now.Before(t.renew)):
		return t.token.AccessToken, nil
	case useless && now.Before(t.futile):
		return refused, nil
	}
	err := t.failure
	if err == nil || now.Sub(t.failed) >= tokenPause {
		err = t.fetch(ctx)
	}
	if err != nil && present && !useless && now.Before(t.token.Expiry) {
		return t.token.AccessToken, nil // it is good for a while yet
	}
	if err != nil {
		return "", err
	}
	if t.token.AccessToken == refused { // some authorization servers repeat themselves until a token has expired
		t.futile = time.Now().Add(futilePause)
	}
	return t.token.AccessToken, nil
}

// fetch gets a new token. Called with the turn only.
func (t *tokens) fetch(caller context.Context) error {
	ctx, cancel := context.WithTimeout(caller, tokenBound)
	defer cancel()
	token, err := t.request(context.WithValue(ctx, oauth2.HTTPClient, t.client))
	switch {
	case err != nil:
		err = tokenError(err)
	case !strings.EqualFold(token.Type(), "Bearer"):
		err = &protocolError{problem: "the token endpoint's token is none to be borne"}
	}
	if err != nil {
		if caller.Err() == nil { // else it says nothing of the token endpoint
			t.failure, t.failed = err, time.Now()
		}
		return err
	}
	t.token, t.failure, t.renew = token, nil, time.Time{}
	if !token.Expiry.IsZero() {
		t.renew = token.Expiry.Add(-min(tokenMargin, time.Until(token.Expiry)/4))
	}
	return nil
}

// request asks the token endpoint, with an assertion that is new each time where the client has a key.
func (t *tokens) request(ctx context.Context) (*oauth2.Token, error) {
	if t.assert == nil {
		return t.config.Token(ctx)
	}
	signed, err := t.assert()
	if err != nil {
		return nil, err
	}
	signing := clientcredentials.Config{
		TokenURL: t.config.TokenURL, ClientID: t.config.ClientID, Scopes: t.config.Scopes,
		AuthStyle: oauth2.AuthStyleInParams, EndpointParams: maps.Clone(t.config.EndpointParams),
	}
	signing.EndpointParams.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	signing.EndpointParams.Set("client_assertion", signed)
	return signing.Token(ctx)
}

// refused notes that the server refused a token that was made because it had refused the one before.
func (t *tokens) refused(ctx context.Context) {
	select {
	case t.turn <- struct{}{}:
		t.futile = time.Now().Add(futilePause)
		<-t.turn
	case <-ctx.Done():
	}
}

// tokenError makes sense of why there is no token, and leaves out what may be sensitive: the address, and what the
// token endpoint said at length.
func tokenError(err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if _, ok := errors.AsType[*url.Error](err); ok {
			return fmt.Errorf("token endpoint: %w", withoutURL(err))
		}
		return &protocolError{problem: "the token endpoint's answer is no token"}
	}
	status := answer.Response.StatusCode
	problem := fmt.Sprintf("token endpoint: HTTP status %d %s", status, http.StatusText(status))
	if code := answer.ErrorCode; isOAuthCode(code) {
		problem += ": " + code
	}
	switch {
	case status == http.StatusTooManyRequests:
		return &refusedError{problem, &statusError{status: status, retryAfter: retryAfter(answer.Response.Header)}}
	case status/100 == 3:
		return errors.New(problem + ": redirects are not followed")
	case status/100 == 5, status == http.StatusRequestTimeout:
		return errors.New(problem)
	}
	return &refusedError{problem, &statusError{status: http.StatusUnauthorized}}
}

// isOAuthCode reports whether a text looks like one of the error codes of RFC 6749.
func isOAuthCode(code string) bool {
	return code != "" && len(code) <= maxOAuthCode &&
		!strings.ContainsFunc(code, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
}

// refusedError is a token endpoint's refusal, which counts as the server's own.
type refusedError struct {
	problem string
	status  *statusError
}

func (e *refusedError) Error() string { return e.problem }

func (e *refusedError) Unwrap() error { return e.status }

// authorized is the network with a token on each request. Where that is refused, the request is made once more with
// another one.
type authorized struct {
	http.RoundTripper

	tokens *tokens
}

func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := a.tokens.get(r.Context(), "")
	if err != nil {
		closeBody(r.Body)
		return nil, err
	}
	response, err := a.send(r, r.Body, token)
	if err != nil || response.StatusCode != http.StatusUnauthorized {
		return response, err
	}
	renewed, err := a.tokens.get(r.Context(), token)
	if err != nil || renewed == token {
		return response, nil //nolint:nilerr // the refusal is the answer, and as good as why there is no other token
	}
	var body io.ReadCloser
	if r.GetBody != nil {
		if body, err = r.GetBody(); err != nil {
			return response, nil //nolint:nilerr // likewise
		}
	}
	closeBody(response.Body)
	again, err := a.send(r, body, renewed)
	if err == nil && again.StatusCode == http.StatusUnauthorized {
		a.tokens.refused(r.Context())
	}
	return again, err
}

func (a *authorized) send(r *http.Request, body io.ReadCloser, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Body = body
	r.Header.Set("Authorization", "Bearer "+token)
	return a.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (a *authorized) CloseIdleConnections() {
	a.tokens.client.CloseIdleConnections()
	(&http.Client{Transport: a.RoundTripper}).CloseIdleConnections()
}

func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close() // nothing was to be read
	}
}

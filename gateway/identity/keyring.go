package identity

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

const (
	// fetchTimeout bounds the fetch of an issuer's keys.
	fetchTimeout = 5 * time.Second
	// keyLife is the age at which keys are fetched again, because the issuer may have withdrawn a key.
	keyLife = 15 * time.Minute
	// fetchInterval is the minimum time between two fetches from an issuer: a token with an unknown
	// key ID causes a fetch, and anyone can send such tokens.
	fetchInterval = 10 * time.Second
	// firstFetchInterval replaces fetchInterval until a fetch has succeeded.
	firstFetchInterval = time.Second
	// maxDocument bounds a document of an issuer, in bytes.
	maxDocument = 1 << 20
	// maxKeys bounds the keys of an issuer. Additional keys are ignored.
	maxKeys = 100
	// maxVerified bounds the cached tokens of an issuer.
	maxVerified = 2048
	// minRSABits is the minimum size of an RSA key (RFC 7518, section 3.3).
	minRSABits = 2048
)

// keyring fetches an issuer's keys at the first use, and keeps them current.
type keyring struct {
	cfg    config.JWT
	logger *slog.Logger
	client *http.Client

	// set is nil until a fetch has succeeded. Requests read it without the mutex.
	set      atomic.Pointer[keySet]
	mu       sync.Mutex    // guards the fields below
	fetched  time.Time     // the start of the last fetch
	failed   error         // the error of the last completed fetch
	fetching chan struct{} // closed at the end of the current fetch; nil if no fetch is in progress
}

func newKeyring(cfg config.JWT, logger *slog.Logger) *keyring {
	return &keyring{cfg: cfg, logger: logger, client: &http.Client{
		Timeout: fetchTimeout,
		// Follow no redirect: it could lead to a server that is not the issuer's.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// inherit copies the keys of another keyring of the same issuer. It does not copy the verified tokens:
// the new configuration may give them other principals or refuse them.
func (k *keyring) inherit(predecessor *keyring) {
	set := predecessor.set.Load()
	if set == nil {
		return
	}
	predecessor.mu.Lock()
	k.fetched, k.failed = predecessor.fetched, predecessor.failed
	predecessor.mu.Unlock()
	k.set.Store(newKeySet(set.keys, set.at))
}

// keySet contains the keys of one fetch and the tokens that they verified. Each fetch makes a new set,
// so that no verified token outlives its key.
type keySet struct {
	keys []jose.JSONWebKey
	at   time.Time // the end of the fetch
	// tokens contains the principal of each verified token, by the token's SHA-256.
	tokens *lru.Cache[[sha256.Size]byte, policy.Principal]
}

func newKeySet(keys []jose.JSONWebKey, at time.Time) *keySet {
	tokens, _ := lru.New[[sha256.Size]byte, policy.Principal](maxVerified) // fails only for a size below one
	return &keySet{keys, at, tokens}
}

// verify returns the payload of a token if one of the keys verifies it, or nil if none does. tried is
// true if the key ID and the algorithm of at least one key matched.
func (s *keySet) verify(token *jwt.JSONWebToken, header jose.Header) (payload []byte, tried bool) {
	for _, key := range s.keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" &&
			key.Algorithm != header.Algorithm {
			continue
		}
		tried = true
		// Go on after a failure: several keys may have the same ID, for example one per algorithm.
		var raw json.RawMessage
		if err := token.Claims(key.Key, &raw); err == nil {
			return raw, true
		}
	}
	return nil, tried
}

// verified returns the principal of a token that the current keys have verified before. ok is false if
// there is no such token or if it has expired. Keys that are too old are fetched first; if that fails,
// the old keys stay current.
func (k *keyring) verified(ctx context.Context, sum [sha256.Size]byte) (policy.Principal, bool) {
	set := k.set.Load()
	if set == nil {
		return policy.Principal{}, false
	}
	found, ok := set.tokens.Get(sum)
	if ok && time.Since(set.at) > keyLife {
		k.refresh(ctx, false)
		found, ok = k.set.Load().tokens.Get(sum)
	}
	return found, ok && time.Now().Before(found.Expires)
}

// get returns the issuer's keys, or [ErrUnavailable] if they were never fetched. Keys that are too old
// are fetched again; if that fails, get returns the old keys.
func (k *keyring) get(ctx context.Context) (*keySet, error) {
	set := k.set.Load()
	if set == nil || time.Since(set.at) > keyLife {
		k.refresh(ctx, set == nil)
		set = k.set.Load()
	}
	if set == nil {
		return nil, k.unavailable()
	}
	return set, nil
}

// newer fetches the keys again and returns them. It returns the same set if fetchInterval has not
// passed since it was fetched, and [ErrUnavailable] if there are no newer keys because a fetch failed.
func (k *keyring) newer(ctx context.Context, than *keySet) (*keySet, error) {
	k.refresh(ctx, true)
	k.mu.Lock()
	failed := k.failed != nil || k.fetching != nil // a fetch is still in progress if ctx ended the wait
	k.mu.Unlock()
	set := k.set.Load()
	// A failed fetch does not matter if another fetch has returned newer keys.
	if failed && set == than {
		return nil, k.unavailable()
	}
	return set, nil
}

// unavailable returns the error for tokens that cannot be verified without keys.
func (k *keyring) unavailable() error {
	return fmt.Errorf("%w: the keys of jwt %q are unknown", ErrUnavailable, k.cfg.Name)
}

// refresh fetches the issuer's keys, unless the last fetch began less than fetchInterval ago. Only one
// caller fetches at a time. For other callers, refresh returns immediately or, if wait is true, at the
// end of the fetch.
func (k *keyring) refresh(ctx context.Context, wait bool) {
	k.mu.Lock()
	if fetching := k.fetching; fetching != nil {
		k.mu.Unlock()
		if wait {
			select {
			case <-fetching:
			case <-ctx.Done():
			}
		}
		return
	}
	interval := fetchInterval
	if k.set.Load() == nil {
		interval = firstFetchInterval
	}
	if !k.fetched.IsZero() && time.Since(k.fetched) < interval {
		k.mu.Unlock()
		return
	}
	ended := make(chan struct{})
	k.fetched, k.fetching = time.Now(), ended
	k.mu.Unlock()

	// The fetch does not end with the request that started it: other callers wait for the result.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	var err error
	defer func() { // deferred, so that a panic does not block all later fetches
		k.mu.Lock()
		k.failed, k.fetching = err, nil
		k.mu.Unlock()
		close(ended)
	}()
	if err = k.fetch(ctx); err != nil {
		k.logger.WarnContext(ctx, "identity provider's keys not fetched",
			slog.String("jwt", k.cfg.Name),
			slog.String("issuer", k.cfg.Issuer), slog.Any("error", err))
	}
}

// fetch replaces the key set by the issuer's current keys.
func (k *keyring) fetch(ctx context.Context) error {
	from := k.cfg.JWKSURL
	if from == "" {
		discovered, err := k.discover(ctx)
		if err != nil {
			return fmt.Errorf("discover: %w", err)
		}
		from = discovered
	}
	document, err := k.document(ctx, from)
	if err != nil {
		return fmt.Errorf("get keys: %w", err)
	}
	keys, err := parseKeys(document)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	k.set.Store(newKeySet(keys, time.Now()))
	k.logger.DebugContext(ctx, "identity provider's keys fetched", slog.String("jwt", k.cfg.Name), slog.Int("keys", len(keys)))
	return nil
}

// discover returns the URL of the issuer's keys from its metadata. It tries OpenID Connect Discovery,
// then RFC 8414.
func (k *keyring) discover(ctx context.Context) (string, error) {
	var failures []error
	for _, at := range metadataURLs(k.cfg.Issuer) {
		document, err := k.document(ctx, at)
		if err != nil { // most issuers serve only one of the URLs
			failures = append(failures, err)
			continue
		}
		var metadata struct {
			Issuer string
			JWKS   string `json:"jwks_uri"`
		}
		switch err := json.Unmarshal(document, &metadata); {
		case err != nil:
			return "", fmt.Errorf("%s: %w", at, err)
		case metadata.Issuer != k.cfg.Issuer: // required by RFC 8414, section 3.3
			return "", fmt.Errorf("%s is the metadata of another issuer", at)
		}
		if metadata.JWKS, err = config.ParseProvider(metadata.JWKS); err != nil {
			return "", fmt.Errorf("%s: jwks_uri %w", at, err)
		}
		return metadata.JWKS, nil
	}
	return "", errors.Join(failures...)
}

// metadataURLs returns the possible URLs of an issuer's metadata, the most likely first.
func metadataURLs(issuer string) []string {
	bare := strings.TrimSuffix(issuer, "/")
	urls := []string{bare + "/.well-known/openid-configuration"}
	if u, err := url.Parse(bare); err == nil {
		// RFC 8414 inserts the well-known part before the issuer's path. OpenID Connect appends it.
		urls = append(urls, u.Scheme+"://"+u.Host+"/.well-known/oauth-authorization-server"+u.EscapedPath())
	}
	return urls
}

// document returns the body of a GET with status 200, at most maxDocument bytes.
func (k *keyring) document(ctx context.Context, at string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := k.client.Do(request)
	// If a proxy refuses to connect, the error of package http contains only the refusal.
	if proxy, _ := http.ProxyFromEnvironment(request); err != nil && proxy != nil {
		err = fmt.Errorf("through the egress proxy %s: %w", proxy.Host, err)
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", at, response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	if len(body) > maxDocument {
		err = fmt.Errorf("%s sent more than %d bytes", at, maxDocument)
	}
	return body, err
}

// parseKeys returns the public keys for signatures in a JWK set, or an error if it contains no such
// key. It ignores unknown types of keys (RFC 7517, section 5). It also ignores symmetric keys: anyone
// who can read the document could sign with them.
func parseKeys(document []byte) ([]jose.JSONWebKey, error) {
	var list struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(document, &list); err != nil {
		return nil, err
	}
	var keys []jose.JSONWebKey
	for _, raw := range list.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && verifies(key) && mayVerify(raw) && len(keys) < maxKeys {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the set has no public key for signatures")
	}
	return keys, nil
}

// verifies reports whether a key is public, strong enough, and for signatures.
func verifies(key jose.JSONWebKey) bool {
	if public, ok := key.Key.(*rsa.PublicKey); ok && public.N.BitLen() < minRSABits {
		return false
	}
	return key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig")
}

// mayVerify reports whether a key's key_ops, if present, include verify (RFC 7517, section 4.3).
func mayVerify(raw []byte) bool {
	var key struct { // jose.JSONWebKey has no key_ops
		Operations []string `json:"key_ops"`
	}
	err := json.Unmarshal(raw, &key)
	return err == nil && (key.Operations == nil || slices.Contains(key.Operations, "verify"))
}

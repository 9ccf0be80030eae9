package identity

import (
	"bytes"
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
	// fetchTimeout is how long fetching an issuer's keys may take.
	fetchTimeout = 5 * time.Second
	// keyLife is how long keys are used before they are fetched again, since the issuer may have
	// withdrawn one.
	keyLife = 15 * time.Minute
	// fetchInterval is the least time between two fetches from an issuer, whatever tokens arrive:
	// anybody can send tokens with made-up keys. As long as no fetch has succeeded it is
	// firstFetchInterval.
	fetchInterval      = 10 * time.Second
	firstFetchInterval = time.Second
	// maxDocument bounds a document of an issuer, in bytes, and maxKeys the keys in it.
	maxDocument = 1 << 20
	maxKeys     = 100
	// maxVerified bounds the tokens of an issuer that are remembered as verified.
	maxVerified = 2048
	// minRSABits is the least size of an RSA key (RFC 7518, section 3.3).
	minRSABits = 2048
)

// keyring has an issuer's keys. Its first use fetches them.
type keyring struct {
	cfg    config.JWT
	logger *slog.Logger
	client *http.Client

	// set is nil until a fetch has succeeded. Requests read it without the lock.
	set atomic.Pointer[keySet]
	mu  sync.Mutex // guards what follows
	// fetched is when the last fetch began, and failed the error of the last one that ended.
	fetched time.Time
	failed  error
	// fetching is closed when the fetch in flight has ended; nil if there is none.
	fetching chan struct{}
}

func newKeyring(cfg config.JWT, logger *slog.Logger) *keyring {
	return &keyring{cfg: cfg, logger: logger, client: &http.Client{
		Timeout: fetchTimeout,
		// A redirect would let somebody other than the issuer provide the keys.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// inherit copies the keys of another ring of the same issuer. Verified tokens are left behind:
// under the new configuration a token may stand for another principal, or for none.
func (k *keyring) inherit(predecessor *keyring) {
	set := predecessor.set.Load()
	if set == nil {
		return
	}
	predecessor.mu.Lock()
	k.fetched, k.failed = predecessor.fetched, predecessor.failed
	predecessor.mu.Unlock()
	k.set.Store(&keySet{
		document: set.document, keys: set.keys, at: set.at,
		tokens: newTokenCache(),
	})
}

// keySet is the keys that an issuer had at some time, and the tokens that they verified. Different
// keys make a new set, so that no token stays verified longer than the key that verified it.
type keySet struct {
	document []byte
	keys     []jose.JSONWebKey
	at       time.Time
	tokens   *tokenCache
}

// tokenCache has the result for each verified token, by the token's SHA-256.
type tokenCache = lru.Cache[[sha256.Size]byte, verifiedToken]

type verifiedToken struct {
	principal policy.Principal
	expiry    time.Time
}

func newTokenCache() *tokenCache {
	tokens, _ := lru.New[[sha256.Size]byte, verifiedToken](maxVerified) // an error is for a size below one
	return tokens
}

// remember records that the keys verified the token with this SHA-256.
func (s *keySet) remember(sum [sha256.Size]byte, who policy.Principal, expiry time.Time) {
	s.tokens.Add(sum, verifiedToken{who, expiry})
}

// verify returns the payload of a token if one of the keys verifies it. Tried reports whether any
// key was eligible.
func (s *keySet) verify(token *jwt.JSONWebToken, header jose.Header) (payload []byte, tried bool) {
	for _, key := range s.keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" &&
			key.Algorithm != header.Algorithm {
			continue
		}
		tried = true
		// More than one key may have the ID, for example one for each algorithm.
		var raw json.RawMessage
		if err := token.Claims(key.Key, &raw); err == nil {
			return raw, true
		}
	}
	return nil, tried
}

// verified returns whose a token is, if the present keys have verified it before and it has not
// expired.
func (k *keyring) verified(ctx context.Context, sum [sha256.Size]byte) (policy.Principal, bool) {
	set := k.set.Load()
	if set == nil {
		return policy.Principal{}, false
	}
	now := time.Now()
	found, ok := set.tokens.Get(sum)
	if ok && now.Sub(set.at) > keyLife {
		k.refresh(ctx, false) // the key may have been withdrawn
		found, _ = k.set.Load().tokens.Get(sum)
		now = time.Now() // a fetch takes time
	}
	// A token that was not found has long expired: its expiry is the zero time.
	if !now.Before(found.expiry) {
		return policy.Principal{}, false
	}
	return found.principal, true
}

// get returns the issuer's keys, old ones rather than none.
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

// newer returns keys that are newer than a set that lacks one, or the same set if the issuer has no
// others. It is an error if they cannot be fetched: whether the token is valid is then unknown.
func (k *keyring) newer(ctx context.Context, than *keySet) (*keySet, error) {
	k.refresh(ctx, true)
	k.mu.Lock()
	failed := k.failed != nil || k.fetching != nil // in flight still: ctx ended before it did
	k.mu.Unlock()
	set := k.set.Load()
	// A fetch that failed does not matter if another one brought new keys.
	if failed && set == than {
		return nil, k.unavailable()
	}
	return set, nil
}

// unavailable returns the error for tokens that cannot be verified at the moment.
func (k *keyring) unavailable() error {
	return fmt.Errorf("%w: the keys of jwt %q are unknown", ErrUnavailable, k.cfg.Name)
}

// refresh fetches the issuer's keys, unless that was done a moment ago. One caller fetches at a
// time; the others continue with the present keys or, with wait, wait until the fetch has ended.
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

	// The result is for everybody who waits, so the fetch must not end with the request that began
	// it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	err := errFetchBroke
	defer func() { // also after a panic: its request ends, and nobody would ever fetch again
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

// errFetchBroke is the outcome of a fetch that ended by a panic.
var errFetchBroke = errors.New("fetching was interrupted")

// fetch replaces the key set with the one that the issuer has now.
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
	set := &keySet{document: document, at: time.Now()}
	if before := k.set.Load(); before != nil && bytes.Equal(before.document, document) {
		set.keys, set.tokens = before.keys, before.tokens // nothing changed but the time
		k.set.Store(set)
		return nil
	}
	if set.keys, err = parseKeys(document); err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	set.tokens = newTokenCache()
	k.set.Store(set)
	k.logger.InfoContext(ctx, "identity provider's keys changed", slog.String("jwt", k.cfg.Name),
		slog.Int("keys", len(set.keys)))
	return nil
}

// discover returns the URL of the issuer's keys from its metadata: by OpenID Connect Discovery,
// else by RFC 8414.
func (k *keyring) discover(ctx context.Context) (string, error) {
	var failures []error
	for _, at := range metadataURLs(k.cfg.Issuer) {
		document, err := k.document(ctx, at)
		if err != nil { // most providers have their metadata at only one of the URLs
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
		case metadata.Issuer != k.cfg.Issuer: // RFC 8414, section 3.3, demands that they are identical
			return "", fmt.Errorf("%s is the metadata of another issuer", at)
		}
		if metadata.JWKS, err = config.ParseProvider(metadata.JWKS); err != nil {
			return "", fmt.Errorf("%s: jwks_uri %w", at, err)
		}
		return metadata.JWKS, nil
	}
	return "", errors.Join(failures...)
}

// metadataURLs returns the URLs of an issuer's metadata, the most likely one first.
func metadataURLs(issuer string) []string {
	bare := strings.TrimSuffix(issuer, "/")
	urls := []string{bare + "/.well-known/openid-configuration"}
	if u, err := url.Parse(bare); err == nil {
		// RFC 8414 inserts the well-known part before the issuer's path, OpenID Connect appends it.
		urls = append(urls,
			u.Scheme+"://"+u.Host+"/.well-known/oauth-authorization-server"+u.EscapedPath())
	}
	return urls
}

// document fetches one JSON document.
func (k *keyring) document(ctx context.Context, at string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := k.client.Do(request)
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

// parseKeys returns the keys of a JWK set that verify signatures. It ignores keys that it does not
// understand, as RFC 7517 wants (section 5), and symmetric keys: whoever can read those could sign
// with them.
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

// verifies reports whether a key is a public one, strong enough, and for signatures.
func verifies(key jose.JSONWebKey) bool {
	if public, ok := key.Key.(*rsa.PublicKey); ok && public.N.BitLen() < minRSABits {
		return false
	}
	return key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig")
}

// mayVerify reports whether a key's operations, if it names any, include the verification of
// signatures (RFC 7517, section 4.3).
func mayVerify(raw []byte) bool {
	// The library does not read them.
	var key struct {
		Operations []string `json:"key_ops"`
	}
	err := json.Unmarshal(raw, &key)
	return err == nil && (key.Operations == nil || slices.Contains(key.Operations, "verify"))
}

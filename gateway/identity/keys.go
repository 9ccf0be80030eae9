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
	"net/netip"
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
	// fetchBound is how long an issuer may take to say which keys it has.
	fetchBound = 5 * time.Second
	// keyLife is how long keys are used before the issuer is asked whether it still has them.
	keyLife = 15 * time.Minute
	// askAgain is how long after the last time an issuer is asked again, whatever tokens come: anybody can make up one
	// with a new key. Where nothing is known of it yet, that is askFirst.
	askAgain = 10 * time.Second
	askFirst = time.Second
	// maxDocument bounds what an issuer says, in bytes, and maxKeys the keys in it.
	maxDocument = 1 << 20
	maxKeys     = 100
	// maxKnown bounds the tokens of an issuer that are not verified again.
	maxKnown = 2048
	// minRSA is how many bits an RSA key must have (RFC 7518, section 3.3).
	minRSA = 2048
)

// keyring is what is known of an issuer's keys. Its first use asks the issuer.
type keyring struct {
	cfg    config.JWT
	logger *slog.Logger
	client *http.Client

	set atomic.Pointer[keySet]
	mu  sync.Mutex // guards what follows
	// asked is when the issuer was asked last, and failed why it gave no answer then.
	asked  time.Time
	failed error
	// asking is closed when the answer that is waited for is there; nil where none is.
	asking chan struct{}
}

func newKeyring(cfg config.JWT, logger *slog.Logger) *keyring {
	return &keyring{cfg: cfg, logger: logger, client: &http.Client{
		Timeout: fetchBound,
		// Whoever can redirect could bring keys from anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// takeOver begins with what another ring of the same issuer knows, but for the tokens.
func (k *keyring) takeOver(before *keyring) {
	set := before.set.Load()
	if set == nil {
		return
	}
	before.mu.Lock()
	k.asked, k.failed = before.asked, before.failed
	before.mu.Unlock()
	k.set.Store(&keySet{document: set.document, keys: set.keys, at: set.at, known: newKnown()})
}

// keySet is the keys that an issuer had at a time, and what was verified with them. Other keys are another set, so that
// what is known of tokens never outlives the keys that it rests on.
type keySet struct {
	document []byte
	keys     []jose.JSONWebKey
	at       time.Time
	known    *lru.Cache[[sha256.Size]byte, verified]
}

// verified is what came of a token.
type verified struct {
	principal policy.Principal
	expiry    time.Time
}

func newKnown() *lru.Cache[[sha256.Size]byte, verified] {
	known, err := lru.New[[sha256.Size]byte, verified](maxKnown)
	if err != nil {
		panic(err) // only of a size that is not positive
	}
	return known
}

func (s *keySet) remember(sum [sha256.Size]byte, who policy.Principal, expiry time.Time) {
	s.known.Add(sum, verified{who, expiry})
}

// verify returns the payload of a token if a key fits. Tried reports whether there was one to try.
func (s *keySet) verify(token *jwt.JSONWebToken, header jose.Header) (payload []byte, tried bool) {
	for _, key := range s.keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		tried = true
		var raw json.RawMessage
		if err := token.Claims(key.Key, &raw); err == nil {
			return raw, true
		}
	}
	return nil, tried
}

// known returns whose a token is that was verified with the present keys and has not expired.
func (k *keyring) known(ctx context.Context, sum [sha256.Size]byte) (policy.Principal, bool) {
	set := k.set.Load()
	if set == nil {
		return policy.Principal{}, false
	}
	now := time.Now()
	found, ok := set.known.Get(sum)
	if ok && now.Sub(set.at) > keyLife {
		k.ask(ctx, false)
		found, ok = k.set.Load().known.Get(sum)
		now = time.Now()
	}
	if !ok || !now.Before(found.expiry) {
		return policy.Principal{}, false
	}
	return found.principal, true
}

// get returns the issuer's keys. Old ones are better than none.
func (k *keyring) get(ctx context.Context) (*keySet, error) {
	set := k.set.Load()
	if set == nil || time.Since(set.at) > keyLife {
		k.ask(ctx, set == nil)
		set = k.set.Load()
	}
	if set == nil {
		return nil, k.unavailable()
	}
	return set, nil
}

// newer returns keys that may have more than a set that lacks one. It is an error where the issuer does not say.
func (k *keyring) newer(ctx context.Context, than *keySet) (*keySet, error) {
	k.ask(ctx, true)
	k.mu.Lock()
	failed := k.failed != nil || k.asking != nil
	k.mu.Unlock()
	set := k.set.Load()
	if failed && set == than {
		return nil, k.unavailable()
	}
	return set, nil
}

func (k *keyring) unavailable() error {
	return fmt.Errorf("%w: the keys of jwt %q are not known", ErrUnavailable, k.cfg.Name)
}

// ask asks the issuer for its keys, unless that was done just now. One caller asks at a time; others go on with what is
// known, or wait for the answer.
func (k *keyring) ask(ctx context.Context, wait bool) {
	k.mu.Lock()
	if asking := k.asking; asking != nil {
		k.mu.Unlock()
		if wait {
			select {
			case <-asking:
			case <-ctx.Done():
			}
		}
		return
	}
	pause := askAgain
	if k.set.Load() == nil {
		pause = askFirst
	}
	if !k.asked.IsZero() && time.Since(k.asked) < pause {
		k.mu.Unlock()
		return
	}
	answered := make(chan struct{})
	k.asked, k.asking = time.Now(), answered
	k.mu.Unlock()

	// The answer is for all who wait: that the one who asks goes does not matter.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchBound)
	defer cancel()
	err := k.fetch(ctx)
	if err != nil {
		k.logger.WarnContext(ctx, "identity provider did not say its keys", slog.String("jwt", k.cfg.Name),
			slog.String("issuer", k.cfg.Issuer), slog.Any("error", err))
	}
	k.mu.Lock()
	k.failed, k.asking = err, nil
	k.mu.Unlock()
	close(answered)
}

// fetch replaces the set with the one that the issuer has now.
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
		set.keys, set.known = before.keys, before.known
		k.set.Store(set)
		return nil
	}
	if set.keys, err = parseKeys(document); err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	set.known = newKnown()
	k.set.Store(set)
	k.logger.InfoContext(ctx, "keys of identity provider", slog.String("jwt", k.cfg.Name), slog.Int("keys", len(set.keys)))
	return nil
}

// discover returns where the issuer says that its keys are: by OpenID Connect Discovery, else by RFC 8414.
func (k *keyring) discover(ctx context.Context) (string, error) {
	var failures []error
	for _, at := range metadataURLs(k.cfg.Issuer) {
		document, err := k.document(ctx, at)
		if err != nil {
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
		case metadata.Issuer != k.cfg.Issuer:
			return "", fmt.Errorf("%s speaks for another issuer", at)
		case !trustworthy(metadata.JWKS):
			return "", fmt.Errorf("%s: jwks_uri is not an https URL", at)
		}
		return metadata.JWKS, nil
	}
	return "", errors.Join(failures...)
}

// metadataURLs is where an issuer's metadata may be, the likeliest place first.
func metadataURLs(issuer string) []string {
	bare := strings.TrimSuffix(issuer, "/")
	urls := []string{bare + "/.well-known/openid-configuration"}
	if u, err := url.Parse(bare); err == nil {
		urls = append(urls, u.Scheme+"://"+u.Host+"/.well-known/oauth-authorization-server"+u.EscapedPath())
	}
	return urls
}

// trustworthy reports whether nobody on the way to an address can answer for it.
func trustworthy(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && loopback
}

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
	if err == nil && len(body) > maxDocument {
		err = fmt.Errorf("%s sent over %d bytes", at, maxDocument)
	}
	return body, err
}

// parseKeys returns the keys that signatures can be verified with. One that is not understood is none of our business:
// it may be for a use that does not exist yet. Symmetric keys are not taken, whatever they are for.
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
		return nil, errors.New("there is no public key for signatures among them")
	}
	return keys, nil
}

func verifies(key jose.JSONWebKey) bool {
	if public, ok := key.Key.(*rsa.PublicKey); ok && public.N.BitLen() < minRSA {
		return false
	}
	return key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig")
}

// mayVerify reports whether a key is for signatures, as far as it says what it is for (RFC 7517, section 4.3).
func mayVerify(raw []byte) bool {
	var key struct {
		Operations []string `json:"key_ops"`
	}
	err := json.Unmarshal(raw, &key)
	return err == nil && (key.Operations == nil || slices.Contains(key.Operations, "verify"))
}

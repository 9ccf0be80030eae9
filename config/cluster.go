package config

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/promptweir/promptweir/config/internal/hclread"
)

// Default ports of the store, and the highest number of a database.
const (
	storePort    = "6379"
	sentinelPort = "26379"
	maxDatabase  = 1<<15 - 1
)

// Cluster is the cluster block: what makes several gateways replicas of one.
type Cluster struct {
	Store Store
	// Advertise is the address at which other replicas reach this one, as SCHEME://HOST:PORT; empty
	// where they do not.
	Advertise string
	// TLS is nil without a tls block: rediss and https are verified with the system's certificates.
	TLS *TLS
}

// Store is the address of a store that speaks the Redis protocol, with its credentials. Like a
// [Secret], it never shows itself.
type Store struct {
	// Addresses are HOST:PORT: of the store, of several nodes of a Redis Cluster or, with a
	// MasterSet, of Sentinels.
	Addresses          []string
	Username, Password string
	Database           int
	// Encrypted says that all connections are TLS.
	Encrypted bool
	// MasterSet is the name by which Sentinels know the store; empty where the addresses are the
	// store's own.
	MasterSet string
	// SentinelPassword is that of the Sentinels; empty where they ask for none.
	SentinelPassword string
}

func (Store) String() string { return masked }

// GoString masks the store under %#v.
func (Store) GoString() string { return masked }

// MarshalText masks the store in JSON.
func (Store) MarshalText() ([]byte, error) { return []byte(masked), nil }

// Mask returns the mask for the store's credentials.
func (s Store) Mask() Mask {
	var m Mask
	m.add(s.Username, s.Password, s.SentinelPassword)
	return m
}

func clusterSchema() hclread.Schema {
	return hclread.Schema{
		External: []string{"advertise"},
		Secret:   []string{"store"},
		Blocks:   []hclread.BlockSchema{{Type: "tls", Schema: tlsSchema()}},
		Foreign:  map[string]string{"shared_watch": "Remove it: each replica watches each server itself."},
	}
}

// decodeCluster decodes the cluster block, of which there is none if it was not written.
func decodeCluster(b *hclread.Block) Cluster {
	var c Cluster
	b.Require("store", `Replicas share a store: set it, for example to "redis://valkey.internal:6379/0".`)
	isSet := hclread.Set(b, "store", &c.Store, parseStore)
	hclread.Set(b, "advertise", &c.Advertise, parseAdvertise)
	for _, inner := range b.Inner("tls") {
		c.TLS = decodeTLS(inner)
		if isSet && !c.Store.Encrypted && !c.IsEncrypted() {
			b.Error(inner.Range(), "tls without TLS", "Neither the store nor the replicas are reached over TLS; "+
				"write rediss:// in store or https:// in advertise, or remove the tls block.")
		}
	}
	return c
}

// IsEncrypted reports whether replicas reach each other over TLS.
func (c *Cluster) IsEncrypted() bool { return strings.HasPrefix(c.Advertise, "https://") }

// parseAdvertise reads the address at which other replicas reach this one.
func parseAdvertise(s string) (string, error) {
	u, err := parseURL(s)
	if err != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery {
		return "", errors.New(`is not http or https, a host and a port; write it like ` +
			`"http://10.0.0.3:8080", an IPv6 address in brackets`)
	}
	return u.Scheme + "://" + u.Host, nil
}

// smallConcurrency is the most requests in flight of a limit that is likely to protect something
// that cannot take as many from each replica.
const smallConcurrency = 4

// checkConcurrency warns where a small limit is multiplied by the number of replicas.
func checkConcurrency(r *hclread.Reader, cfg *Config) {
	limits := []*Limit{cfg.Gateway.Limit}
	for _, team := range cfg.Teams {
		limits = append(limits, team.Limit)
		for _, expose := range team.Exposes {
			limits = append(limits, expose.Limit)
		}
	}
	for _, l := range limits {
		if l != nil && l.Concurrency > 0 && l.Concurrency <= smallConcurrency {
			r.Warning(r.Blocks("cluster")[0].Range(), "Small concurrency with replicas",
				"Each replica counts concurrency for itself: with three, the limit at %s is not "+
					"%d but %d. Divide it by their number, or set rate, which all replicas share.",
				l.Place, l.Concurrency, 3*l.Concurrency)
			return // one is enough to think about all
		}
	}
}

// checkCluster reports replicas that could not verify each other, or open what another one sealed.
func checkCluster(r *hclread.Reader, cfg *Config) {
	if cfg.Cluster != nil {
		checkConcurrency(r, cfg)
		gateways := r.Blocks("gateway")
		if cfg.Cluster.IsEncrypted() && (len(gateways) == 0 || !gateways[0].Has("public_url")) {
			b := r.Blocks("cluster")[0]
			b.Error(b.ValueRange("advertise"), "No public_url", "Replicas verify each other's certificate by "+
				"the host of gateway.public_url: set it.")
		}
	}
	if cfg.Cluster == nil || len(cfg.Gateway.CursorKeys) > 0 {
		return
	}
	// Whatever is wrong with them was reported.
	if gateways := r.Blocks("gateway"); len(gateways) > 0 && gateways[0].Has("cursor_keys") {
		return
	}
	b := r.Blocks("cluster")[0]
	b.Error(b.Range(), "No cursor_keys", "With gateway.cursor_keys, replicas authenticate each "+
		"other and encrypt what they store. Set the same keys on every replica.")
}

// parseStore reads the URL of a store. Its errors do not quote it.
func parseStore(s string) (Store, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != "redis" && scheme != "rediss" {
		return Store{}, errors.New(`is not a redis or rediss URL; write it like ` +
			`"redis://:PASSWORD@valkey.internal:6379/0", or rediss:// for TLS`)
	}
	// url.Parse knows one host, so the others are cut out of what it is given.
	end := strings.IndexAny(rest+"/", "/?#")
	authority, rest := rest[:end], rest[end:]
	// The last one: a password may have others in it.
	at := strings.LastIndexByte(authority, '@')
	u, err := url.Parse(scheme + "://" + authority[:at+1] + "store" + rest)
	if err != nil || strings.Contains(rest, "#") {
		return Store{}, errors.New(`cannot be read as a URL; pass a password through ` +
			`urlencode(), as in "redis://:${urlencode(env("STORE_PASSWORD"))}@valkey.internal"`)
	}
	store := Store{Encrypted: scheme == "rediss", Username: u.User.Username()}
	store.Password, _ = u.User.Password()
	if err := store.readQuery(u.RawQuery); err != nil {
		return Store{}, err
	}
	if store.Addresses, err = parseStoreHosts(authority[at+1:], store.MasterSet != ""); err != nil {
		return Store{}, err
	}
	return store, store.readDatabase(u.Path)
}

// readQuery reads the parameters after the question mark.
func (s *Store) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	for name, all := range values {
		if len(all) > 1 || all[0] == "" || name != "master_set" && name != "sentinel_password" {
			// Any error: what it says is below.
			err = errors.New("")
		}
	}
	s.MasterSet, s.SentinelPassword = values.Get("master_set"), values.Get("sentinel_password")
	if err != nil || s.MasterSet == "" && s.SentinelPassword != "" {
		return errors.New(`has unknown parameters; it takes master_set, the Sentinels' name for ` +
			`the store, and with that sentinel_password`)
	}
	return nil
}

// readDatabase reads the number of the database from the path.
func (s *Store) readDatabase(path string) error {
	number := strings.TrimPrefix(path, "/")
	if number == "" {
		return nil
	}
	n, err := strconv.ParseUint(number, 10, 16)
	switch {
	case err != nil || n > maxDatabase:
		return errors.New(`has a path that is not a database number; write it like "redis://valkey.internal:6379/0"`)
	case n > 0 && s.MasterSet == "" && len(s.Addresses) > 1:
		return errors.New("has several addresses, so it is a Redis Cluster, which has database 0 " +
			"only; leave the database out")
	}
	s.Database = int(n)
	return nil
}

// maxStoreHosts bounds the addresses in one store URL: a client connects to each of them.
const maxStoreHosts = 64

// parseStoreHosts reads hosts with or without ports, between commas.
func parseStoreHosts(list string, areSentinels bool) ([]string, error) {
	fallback := storePort
	if areSentinels {
		fallback = sentinelPort
	}
	var addresses []string
	for item := range strings.SplitSeq(list, ",") {
		host, port, err := net.SplitHostPort(item)
		if err != nil {
			host, port = strings.TrimSuffix(strings.TrimPrefix(item, "["), "]"), fallback
		}
		if !isHost(host) || !validPort(port) {
			return nil, errors.New(`has no valid HOST:PORT; write it like ` +
				`"redis://valkey.internal:6379", several with commas between them`)
		}
		address := net.JoinHostPort(host, port)
		if slices.Contains(addresses, address) {
			return nil, errors.New("has an address twice; remove one")
		}
		addresses = append(addresses, address)
	}
	if len(addresses) > maxStoreHosts {
		return nil, errors.New("has more than " + strconv.Itoa(maxStoreHosts) + " addresses; a " +
			"few are enough to find the others")
	}
	return addresses, nil
}

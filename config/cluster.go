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

// Default ports of the store, and the highest database number.
const (
	storePort    = "6379"
	sentinelPort = "26379"
	maxDatabase  = 1<<15 - 1
)

// Cluster is the cluster block, which makes several gateways replicas.
type Cluster struct {
	Store     Store
	Advertise string // SCHEME://HOST:PORT, or empty
	TLS       *TLS   // if nil, rediss and https are verified with the system's certificates
}

// Store is the address and the credentials of a store with the Redis protocol. It masks itself when it is printed.
type Store struct {
	// Addresses are HOST:PORT of the store, of nodes of a Redis Cluster or, with a MasterSet, of Sentinels.
	Addresses          []string
	Username, Password string
	Database           int
	// Encrypted is true if all connections use TLS.
	Encrypted bool
	// MasterSet is the Sentinels' name for the store. It is empty if there are no Sentinels.
	MasterSet string
	// SentinelPassword is empty if the Sentinels require no password.
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

func (c *Cluster) table() []hclread.Attribute {
	return []hclread.Attribute{
		hclread.Secret("store", hclread.String(&c.Store, parseStore),
			"`redis://USER:PASSWORD@HOST:PORT/DATABASE`, or just the host; `rediss://` is TLS. `HOST:PORT,HOST:PORT` are nodes of a Redis Cluster or, with `?master_set=NAME`, Sentinels, with "+
				"`&sentinel_password=…`. Put passwords in with `urlencode(env(\"STORE_PASSWORD\"))`.").
			Required(`Replicas share a store: set it, for example to "redis://valkey.internal:6379/0".`),
		hclread.FromEnvironment("advertise", hclread.String(&c.Advertise, parseAdvertise),
			"Where other replicas reach this one, `http://HOST:PORT` or `https://HOST:PORT`, such as `\"http://${env(\"POD_IP\")}:8080\"`. They [forward](../gateway/README.md#several-replicas) to "+
				"it what belongs to a session or a get that it holds. `https` is verified by the host of `public_url`."),
	}
}

func clusterSchema() hclread.Schema {
	return hclread.Schema{
		Attributes: new(Cluster).table(),
		Blocks:     []hclread.BlockSchema{{Type: "tls", Schema: tlsSchema(), Meaning: "For `rediss`, and for `https` in `advertise`."}},
		Foreign:    map[string]string{"shared_watch": "Remove it: each replica watches each server itself."},
	}
}

func decodeCluster(b *hclread.Block) Cluster {
	var c Cluster
	b.Decode(c.table())
	for _, inner := range b.Inner("tls") {
		c.TLS = decodeTLS(inner)
		if len(c.Store.Addresses) > 0 && !c.Store.Encrypted && !c.IsEncrypted() {
			b.Error(inner.Range(), "tls without TLS", "Neither the store nor the replicas are reached over TLS; "+
				"write rediss:// in store or https:// in advertise, or remove the tls block.")
		}
	}
	return c
}

// IsEncrypted reports whether replicas reach each other over TLS.
func (c *Cluster) IsEncrypted() bool { return strings.HasPrefix(c.Advertise, "https://") }

// parseAdvertise reads the address at which other replicas reach this replica.
func parseAdvertise(s string) (string, error) {
	u, err := parseURL(s)
	if err != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery {
		return "", errors.New(`is not http or https, a host and a port; write it like "http://10.0.0.3:8080", an IPv6 address in brackets`)
	}
	return u.Scheme + "://" + u.Host, nil
}

// checkCluster reports replicas that could not verify each other or decrypt each other's data.
func checkCluster(r *hclread.Reader, cfg *Config) {
	if cfg.Cluster == nil {
		return
	}
	b := r.Blocks("cluster")[0]
	if cfg.Cluster.IsEncrypted() && !r.Has("gateway", "public_url") {
		b.Error(b.ValueRange("advertise"), "No public_url",
			"Replicas verify each other's certificate by the host of gateway.public_url: set it.")
	}
	if !r.Has("gateway", "cursor_keys") { // Has also counts invalid keys, which were reported
		b.Error(b.Range(), "No cursor_keys",
			"With gateway.cursor_keys, replicas authenticate each other and encrypt what they store. Set the same keys on every replica.")
	}
}

// parseStore reads the URL of a store. Its errors do not quote the URL.
func parseStore(s string) (Store, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != "redis" && scheme != "rediss" {
		return Store{}, errors.New(`is not a redis or rediss URL; write it like ` +
			`"redis://:PASSWORD@valkey.internal:6379/0", or rediss:// for TLS`)
	}
	// url.Parse accepts one host, so a placeholder replaces the list of hosts.
	end := strings.IndexAny(rest+"/", "/?#")
	authority, rest := rest[:end], rest[end:]
	// The last @ counts, because a password may also contain an @.
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

// readQuery reads master_set and sentinel_password.
func (s *Store) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	isValid := err == nil
	for name, all := range values {
		isValid = isValid && len(all) == 1 && all[0] != "" && (name == "master_set" || name == "sentinel_password")
	}
	s.MasterSet, s.SentinelPassword = values.Get("master_set"), values.Get("sentinel_password")
	if !isValid || s.MasterSet == "" && s.SentinelPassword != "" {
		return errors.New(`has unknown parameters; it takes master_set, the Sentinels' name for the store, and with that sentinel_password`)
	}
	return nil
}

// readDatabase reads the database number from the path.
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
		return errors.New("has several addresses, so it is a Redis Cluster, which has database 0 only; leave the database out")
	}
	s.Database = int(n)
	return nil
}

// parseStoreHosts reads hosts with or without ports, separated by commas.
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
			return nil, errors.New(`has no valid HOST:PORT; write it like "redis://valkey.internal:6379", several with commas between them`)
		}
		address := net.JoinHostPort(host, port)
		if slices.Contains(addresses, address) {
			return nil, errors.New("has an address twice; remove one")
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

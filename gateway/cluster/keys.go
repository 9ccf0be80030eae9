package cluster

import (
	"context"
	"strconv"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/seal"
)

// Purposes of keys, see [seal.Sealer.MAC].
const (
	principalPurpose = "cluster principal"
	limitPurpose     = "cluster limit"
	fleetPurpose     = "cluster fleet"
)

// ofAll begins the keys and channels of what all replicas have in common. It has a hash tag: one node of a Redis Cluster has all of that, and
// answers to probes.
const ofAll = "promptweir:{replicas}:"

// hashSize is how much of a hash stands in a key, in hexadecimal digits: 128 bits.
const hashSize = 32

// keys name things in the store by keyed hashes.
type keys struct {
	sealer            *seal.Sealer
	principal, limits *seal.MAC
	// probe is the key that probes write, and the channel that they publish to.
	probe  string
	topics map[string]topic
	// fleet names what is shared by all replicas, by each cursor key; messages seals what they send each other.
	fleet    []*seal.MAC
	messages *seal.Box

	// replaced ends when other keys have taken the place of these.
	replaced context.Context //nolint:containedctx // it is a mark that others wait for
	replace  context.CancelFunc
}

func newKeys(sealer *seal.Sealer, heard map[string]hearing) *keys {
	k := &keys{
		sealer: sealer, principal: sealer.MAC(principalPurpose), limits: sealer.MAC(limitPurpose),
		probe: ofAll + "probe:" + hash(sealer.MAC(fleetPurpose), "probe"), topics: map[string]topic{},
		fleet: sealer.MACs(fleetPurpose), messages: sealer.For("cluster message"),
	}
	k.replaced, k.replace = context.WithCancel(context.Background())
	for name, h := range heard {
		k.topics[name] = newTopic(sealer, name, h.lasts)
	}
	return k
}

func hash(m *seal.MAC, value string) string {
	return string(m.AppendHex(make([]byte, 0, 64), []byte(value))[:hashSize])
}

// ofLimit returns the keys of one principal under one limit: of its rate, and of its places. The keys of one principal have one
// hash tag, so that they are on one node of a Redis Cluster, and one script can read them.
func (k *keys) ofLimit(principal string, l *config.Limit) (rate, places string) {
	// As in memory, a limit is what it says and where it stands, so that it survives a reload that moves its block.
	id := make([]byte, 0, 64)
	id = strconv.AppendFloat(id, l.Rate, 'g', -1, 64)
	id = strconv.AppendInt(append(id, ' '), int64(l.Burst), 10)
	id = strconv.AppendInt(append(id, ' '), int64(l.Concurrency), 10)
	id = append(append(id, ' '), l.Block...)
	key := "promptweir:{" + principal + "}:" + hash(k.limits, string(id))
	return key + ":rate", key + ":places"
}

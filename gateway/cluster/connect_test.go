//go:build unix

package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestStore_IsFoundBySentinels(t *testing.T) {
	store := clustertest.StartServer(t, "--requirepass", "of-the-store")
	sentinel := clustertest.StartSentinel(t, "main", store, "sentinel auth-pass main of-the-store", "requirepass of-the-sentinel")
	address := at(sentinel)
	address.MasterSet, address.Password, address.SentinelPassword = "main", "of-the-store", "of-the-sentinel"
	s := replica(t, address)
	take(t, s, "ann", true, &config.Limit{Rate: 0.01, Burst: 2, Block: "gateway"})
}

// A user who may not run scripts cannot count: the store is away for as long as that is so.
func TestStore_IsAwayForAUserWithoutScripts(t *testing.T) {
	store := clustertest.StartServer(t)
	store.Command("ACL", "SETUSER", "gateway", "on", ">of-the-store", "~promptweir:*", "+@all", "-@admin", "-@dangerous", "-@scripting")
	address := at(store)
	address.Username, address.Password = "gateway", "of-the-store"
	a := start(t, &config.Cluster{Store: address}, [32]byte{1}, discard)
	upstreamtest.Eventually(t, "it is known what is refused", func() bool { return a.State().Err != nil })
	if state := a.State(); state.Connected || !strings.Contains(state.Err.Error(), "NOPERM") {
		t.Errorf("state %+v, want away for lack of a permission", state)
	}
	store.Command("ACL", "SETUSER", "gateway", "+@scripting")
	upstreamtest.Eventually(t, "the store is here", func() bool { return a.State().Connected })
}

func TestStore_IsReachedOverTLS(t *testing.T) {
	dir := t.TempDir()
	authority := upstreamtest.NewAuthority(t, "test")
	certificate, key := upstreamtest.PEM(t, authority.Server("example.com"))
	for name, text := range map[string]string{"cert.pem": certificate, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := upstreamtest.Address(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	clustertest.StartServer(t, "--tls-port", port, "--tls-auth-clients", "no",
		"--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"))
	encrypted := config.Store{Addresses: []string{address}, Encrypted: true}
	trusting := &config.Cluster{Store: encrypted, TLS: &config.TLS{CAs: config.NewSecret(authority.PEM), ServerName: "example.com"}}
	s := start(t, trusting, [32]byte{1}, discard)
	upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Connected })
	take(t, s, "ann", true, &config.Limit{Rate: 0.01, Burst: 2, Block: "gateway"})
	stranger := start(t, &config.Cluster{Store: encrypted}, [32]byte{1}, discard)
	upstreamtest.Eventually(t, "a certificate of nobody's is refused", func() bool { return stranger.State().Err != nil })
}

func TestStart_EndsWhileTheStoreHangs(t *testing.T) {
	store := clustertest.Start(t)
	s := newReplica(t, &config.Cluster{Store: at(store)}, [32]byte{1}, discard)
	end := s.Start(t.Context())
	upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Connected })
	store.Pause()
	defer store.Resume()
	began := time.Now()
	if end(); time.Since(began) > time.Second {
		t.Errorf("the replica ended after %v, want at once", time.Since(began))
	}
}

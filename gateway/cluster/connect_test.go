//go:build unix

package cluster_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/cluster"
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

// A user of an access control list who has the keys and not the channels, as whoever is new to one, cannot pass messages on: the store is away
// for as long as that is so, rather than whenever a message was sent.
func TestStore_IsAwayForAUserWithoutChannels(t *testing.T) {
	store := clustertest.StartServer(t)
	store.Command("ACL", "SETUSER", "gateway", "on", ">of-the-store", "~promptweir:*", "+@all", "-@admin", "-@dangerous", "+info")
	address := at(store)
	address.Username, address.Password = "gateway", "of-the-store"
	a := start(t, &config.Cluster{Store: address}, [32]byte{1}, discard)
	upstreamtest.Eventually(t, "it is known what is refused", func() bool { return a.State().Err != nil })
	if state := a.State(); state.Connected || !strings.Contains(state.Err.Error(), "channel") {
		t.Errorf("state %+v, want away because of channels", state)
	}
	store.Command("ACL", "SETUSER", "gateway", "&promptweir:*")
	upstreamtest.Eventually(t, "the store is here", func() bool { return a.State().Connected })
	upstreamtest.Eventually(t, "a message is published", func() bool {
		err := a.Messages.Call(t.Context(), "nobody", "question", "", "", new(string))
		return errors.Is(err, cluster.ErrGone)
	})
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

func TestRun_EndsWhileTheStoreHangs(t *testing.T) {
	store := clustertest.Start(t)
	for _, hangs := range []string{"before it is reached", "later"} {
		if hangs == "before it is reached" {
			store.Pause()
		}
		s := newReplica(t, &config.Cluster{Store: at(store)}, [32]byte{1}, discard)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		if hangs == "later" {
			upstreamtest.Eventually(t, "the store is here", func() bool { return s.State().Connected })
			store.Pause()
		}
		time.Sleep(100 * time.Millisecond) // for a connection to be made, or waited for
		began := time.Now()
		cancel()
		if err := <-ended; err != nil || time.Since(began) > time.Second {
			t.Errorf("a store that hangs %s: Run returned after %v, %v, want at once", hangs, time.Since(began), err)
		}
		store.Resume()
	}
}

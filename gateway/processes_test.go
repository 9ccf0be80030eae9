//go:build unix

package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/cluster/clustertest"
	"github.com/promptweir/promptweir/gateway/gatewaytest"
	"github.com/promptweir/promptweir/upstream/upstreamtest"
)

func TestMain(m *testing.M) {
	upstreamtest.Main(m, map[string]func(args []string){"replica": replicaRole, "folder": folderRole})
}

// process is a replica in a process of its own, that can be stopped in every way.
type process struct {
	*gatewaytest.Server
	*os.Process
}

// replicaRole serves the configuration in a file, and prints its address.
func replicaRole(args []string) {
	cfg, diags := config.Load(args[0], config.Options{})
	if err := diags.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	g, err := gateway.New(cfg, gateway.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Version: "1"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() { _ = g.Run(context.Background()) }() // until the process is killed
	fmt.Printf("http://%s/mcp\n", l.Addr())
	_ = (&http.Server{Handler: g.Handler(), ReadHeaderTimeout: time.Minute}).Serve(l)
}

func startProcess(t *testing.T, text string) process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.hcl")
	text = strings.ReplaceAll(text, "%KEY%", strings.Repeat("QUJD", 10)+"QUI=")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	child := upstreamtest.Child(t, "replica", "replica", path)
	cmd := exec.Command(child.Command[0], child.Command[1:]...) //nolint:noctx // it ends with the test
	cmd.Env = os.Environ()
	for name, value := range child.Env {
		cmd.Env = append(cmd.Env, name+"="+value.Reveal())
	}
	var log gatewaytest.Log
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have been killed before
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("replica:\n%s", log.String())
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err, log.String())
	}
	return process{&gatewaytest.Server{TB: t, URL: strings.TrimSpace(url)}, cmd.Process}
}

func (p process) send(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// A replica that was stopped while a server changed its list, and goes on, has what the server has.
func TestReplica_ThatWasStoppedListsWhatChangedMeanwhile(t *testing.T) {
	store, p := clustertest.Start(t), gatewaytest.NewPeer(t, "p", "a", "old")
	stopped := startProcess(t, "gateway { cursor_keys = [\"%KEY%\"] }\n"+gatewaytest.Team("eng", "", "", p)+
		"\ncluster { store = \""+store.URL()+"\" }\n")
	other := serveReplicas(t, store, 1, "gateway { %CLUSTER% }\n"+gatewaytest.Team("eng", "", "", p))[0]
	lists := func(g *gatewaytest.Server, names ...string) {
		t.Helper()
		upstreamtest.Eventually(t, fmt.Sprint("lists ", names), func() bool { return slices.Equal(g.Modern("").List(), names) })
	}
	lists(stopped.Server, "p.a", "p.old")
	stopped.send(t, syscall.SIGSTOP)
	p.Offer("a", "new")
	lists(other, "p.a", "p.new")
	stopped.send(t, syscall.SIGCONT)
	lists(stopped.Server, "p.a", "p.new")
}

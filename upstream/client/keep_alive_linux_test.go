package client

import (
	"net"
	"net/url"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/promptweir/promptweir/config"
)

func TestKeepAlive_IsSetOnConnections(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, guard := range map[string]func(string) error{"guarded": func(string) error { return nil }, "unguarded": nil} {
		opened, err := dial(t.Context(), &url.URL{Scheme: "http", Host: listener.Addr().String()}, config.AnyHost, guard)
		if err != nil {
			t.Fatal(name, err)
		}
		defer opened.Close()
		connection, err := opened.Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(name, err)
		}
		get := func(level, option int) (value int) {
			if failed := connection.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, option) }); failed != nil || err != nil {
				t.Fatal(name, failed, err)
			}
			return value
		}
		if get(unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 0 {
			t.Errorf("%s: keep-alive is off", name)
		}
		idle, interval := get(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), get(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
		if bound := idle + interval*get(unix.IPPROTO_TCP, unix.TCP_KEEPCNT); bound != 30 {
			t.Errorf("%s: a silent peer is noticed after %d s, want 30", name, bound)
		}
		if bound := get(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); bound != 30_000 {
			t.Errorf("%s: bytes without acknowledgement are noticed after %d ms, want 30 000", name, bound)
		}
	}
}

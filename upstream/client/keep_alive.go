package client

import (
	"net"
	"net/http"
	"time"
)

// A connection whose other side has vanished without a word, or behind a firewall that has forgotten it, is closed after 30
// seconds without an answer: otherwise a stream of changes would wait on it for ever. Package upstream finds out about a server
// that is there and does not answer.
const (
	keepAliveIdle     = 15 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
	// userTimeout is how long sent bytes may stay without acknowledgement (RFC 5482), for which keep-alive does not look.
	userTimeout = keepAliveIdle + keepAliveCount*keepAliveInterval
	// pingTimeout is how long the peer of an HTTP/2 connection may take to answer a PING frame. One is sent when nothing was
	// received for keepAliveIdle.
	pingTimeout = keepAliveCount * keepAliveInterval
)

func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount}
}

// keepAliveHTTP2 does for HTTP/2 what keep-alive cannot: behind a proxy that answers for a peer, only frames reach that.
func keepAliveHTTP2() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: keepAliveIdle, PingTimeout: pingTimeout}
}

package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/requests"
)

// Slow or silent clients must not hold connections.
const (
	// headerTimeout is how long a request's header may take to arrive, readTimeout the whole
	// request.
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// maxHTTP2Streams bounds the requests in flight of one HTTP/2 connection. It is net/http's own
	// default, which an update of Go could change.
	maxHTTP2Streams = 250
)

// listen binds the address of a block's listen attribute, and tells the gateway that it is its own.
func listen(
	ctx context.Context, block, address string, location config.Place, g *gateway.Gateway,
) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, ListenError(block, address, location, err)
	}
	if own, err := netip.ParseAddrPort(listener.Addr().String()); err == nil {
		g.Own(own)
	}
	return listener, nil
}

// ListenError says why an address cannot be bound, and what to do about it.
func ListenError(block, address string, location config.Place, err error) error {
	where := address
	if location != (config.Place{}) { // else it is the default
		where += " (" + location.String() + ")"
	}
	why, remedy := err.Error(), "correct listen in the "+block+" block"
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why, remedy = "another process uses the port", "stop it, or choose another port: listen in the "+block+" block"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this machine has no such address"
	case errors.Is(err, syscall.EACCES):
		why, remedy = "permission denied", "choose a port from 1024 on: listen in the "+block+" block"
	}
	return fmt.Errorf("cannot listen on %s: %s; %s", where, why, remedy)
}

// newServer returns a server without a bound on the duration of a response, because streams last.
// Package transport bounds each write instead.
func newServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams},
		// Anybody can cause these errors, any number of times.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// boundServer is a server with the listener that it is to serve.
type boundServer struct {
	server   *http.Server
	listener net.Listener
	// cut ends the contexts of all requests, with a cause.
	cut context.CancelCauseFunc
}

// bind returns a server that is to serve a listener.
func bind(server *http.Server, listener net.Listener) boundServer {
	base, cut := context.WithCancelCause(context.Background())
	server.BaseContext = func(net.Listener) context.Context { return base }
	return boundServer{server, listener, cut}
}

// serve serves until stop is called.
func (s boundServer) serve() error {
	serve := s.server.Serve
	if s.server.TLSConfig != nil {
		// Without files: the certificate is in TLSConfig.
		serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stop stops accepting connections and waits for requests in flight, each of which is told to close
// its connection. Those that take longer than a time are answered that the gateway is shutting
// down. Then all connections are closed.
func (s boundServer) stop(within time.Duration, logger *slog.Logger) {
	over := time.AfterFunc(within, func() { s.cut(gateway.ErrShuttingDown) })
	defer over.Stop()
	bound, cancel := context.WithTimeout(context.Background(), within+cutOffTimeout)
	defer cancel()
	if err := s.server.Shutdown(bound); err != nil {
		logger.Warn("requests in flight cut off", slog.Any("error", err))
		_ = s.server.Close()
	}
}

// certificateInterval is the least time between two checks of the certificate's files. Handshakes
// trigger the checks.
const certificateInterval = 10 * time.Second

// serverCertificate is the endpoint's certificate. It follows its files when they are renewed.
type serverCertificate struct {
	cfg    *config.ServerTLS
	logger *slog.Logger

	mu   sync.Mutex // guards what follows
	pair *tls.Certificate
	// files tells the files of the pair from renewed ones; empty before the first check.
	files   [2]string
	checked time.Time
}

// serverTLS returns the endpoint's TLS settings, nil for plain HTTP.
func serverTLS(cfg *config.Config, logger *slog.Logger) (*tls.Config, error) {
	if cfg.Gateway.TLS == nil {
		return nil, nil //nolint:nilnil // net/http reads nil in the same way
	}
	settings, err := cfg.Gateway.TLS.ServerConfig(cfg.Auth.RequiresClientCertificate())
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	pair, err := tls.X509KeyPair([]byte(cfg.Gateway.TLS.Certificate.Reveal()),
		[]byte(cfg.Gateway.TLS.Key.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	certificate := &serverCertificate{cfg: cfg.Gateway.TLS, logger: logger, pair: &pair}
	settings.GetCertificate = certificate.get
	_, err = otel.Meter(requests.Scope).Int64ObservableGauge(gateway.CertificateExpiry, metric.WithUnit("s"),
		metric.WithDescription(gateway.CertificateExpiryHelp), metric.WithInt64Callback(certificate.observe))
	if err != nil {
		otel.Handle(err)
	}
	return settings, nil
}

// get is for tls.Config.GetCertificate. If the files cannot be loaded, the previous certificate
// stays in use.
func (c *serverCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= certificateInterval {
		// Before the attempt, so that one that fails is not repeated at each handshake.
		c.checked = now
		if err := c.renew(); err != nil {
			c.logger.Warn("certificate not renewed", slog.String("cert_file", c.cfg.CertFile),
				slog.Any("error", err))
		}
	}
	return c.pair, nil
}

// observe looks at the files as a handshake does: a certificate that was renewed no longer expires.
func (c *serverCertificate) observe(_ context.Context, o metric.Int64Observer) error {
	pair, err := c.get(nil)
	if err == nil {
		o.Observe(pair.Leaf.NotAfter.Unix())
	}
	return err
}

// renew loads the files if they have changed.
func (c *serverCertificate) renew() error {
	// While only one of the two has been replaced, the key does not match, and the next check tries
	// again.
	var files [2]string
	for i, path := range []string{c.cfg.CertFile, c.cfg.KeyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		files[i] = fmt.Sprint(info.ModTime().UnixNano(), info.Size())
	}
	if files == c.files {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cfg.CertFile, c.cfg.KeyFile)
	if err != nil {
		return err
	}
	if c.files != [2]string{} {
		c.logger.Info("certificate renewed", slog.String("cert_file", c.cfg.CertFile))
	}
	c.pair, c.files = &pair, files
	return nil
}

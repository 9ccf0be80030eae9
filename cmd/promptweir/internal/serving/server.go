package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/promptweir/promptweir/cmd/promptweir/internal/terminal"
	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway"
	"github.com/promptweir/promptweir/gateway/requests"
)

// Bounds for slow or silent clients.
const (
	// headerTimeout bounds the time until a request's header has arrived. readTimeout bounds the time until its
	// body has arrived, too.
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	// idleTimeout bounds the wait for the next request of a connection.
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// maxHTTP2Streams bounds the requests in flight of one HTTP/2 connection. It equals net/http's default,
	// and is set here so that a new Go version does not change it.
	maxHTTP2Streams = 250
)

// listen binds the address of a listen attribute, and registers it as the gateway's own.
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

// ListenError explains why an address cannot be bound, with a remedy.
func ListenError(block, address string, location config.Place, err error) error {
	where := address + terminal.InBrackets(location.String()) // the default has no location
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

// newServer returns a server without a WriteTimeout, because streams are long. Package transport bounds each
// write.
func newServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams},
		// Log these errors at the lowest level, because clients can cause any number of them.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// boundServer is a server with its bound listener.
type boundServer struct {
	server   *http.Server
	listener net.Listener
	// cut ends the contexts of all requests with a cause.
	cut context.CancelCauseFunc
}

// bind returns a server that serves a listener, and can cut off its requests.
func bind(server *http.Server, listener net.Listener) boundServer {
	base, cut := context.WithCancelCause(context.Background())
	server.BaseContext = func(net.Listener) context.Context { return base }
	return boundServer{server, listener, cut}
}

// serve serves until stop is called.
func (s boundServer) serve() error {
	serve := s.server.Serve
	if s.server.TLSConfig != nil {
		// The certificate is in TLSConfig.
		serve = func(l net.Listener) error { return s.server.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stop closes the listener and waits for requests in flight. Requests that take longer than within are answered
// with gateway.ErrShuttingDown. After another cutOffTimeout, all connections are closed.
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

// certificateInterval is the minimum time between two loads of the certificate's files. Handshakes and the
// metric of the certificate's expiry trigger the loads.
const certificateInterval = 10 * time.Second

// serverCertificate is the endpoint's certificate. It is renewed from its files while the gateway runs.
type serverCertificate struct {
	cfg    *config.ServerTLS
	logger *slog.Logger

	mu      sync.Mutex // guards the fields below
	pair    *tls.Certificate
	checked time.Time
}

// serverTLS returns the endpoint's TLS settings, or nil for plain HTTP if there is no tls block.
func serverTLS(cfg *config.Config, logger *slog.Logger) (*tls.Config, error) {
	if cfg.Gateway.TLS == nil {
		return nil, nil //nolint:nilnil // in net/http, too, nil means plain HTTP
	}
	settings := cfg.Gateway.TLS.ServerConfig(cfg.Auth.RequiresClientCertificate())
	pair, err := tls.X509KeyPair([]byte(cfg.Gateway.TLS.Certificate.Reveal()),
		[]byte(cfg.Gateway.TLS.Key.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	certificate := &serverCertificate{cfg: cfg.Gateway.TLS, logger: logger, pair: &pair}
	settings.GetCertificate = certificate.get
	_, err = otel.Meter(requests.InstrumentationScope).Int64ObservableGauge(gateway.CertificateExpiry, metric.WithUnit("s"),
		metric.WithDescription(gateway.CertificateExpiryHelp), metric.WithInt64Callback(certificate.observe))
	if err != nil {
		otel.Handle(err)
	}
	return settings, nil
}

// get implements tls.Config.GetCertificate. It never fails: if the files cannot be loaded, for example
// because only one of the two has been replaced, it returns the previous certificate.
func (c *serverCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.checked) < certificateInterval {
		return c.pair, nil
	}
	c.checked = now
	switch pair, err := tls.LoadX509KeyPair(c.cfg.CertFile, c.cfg.KeyFile); {
	case err != nil:
		c.logger.Warn("certificate not renewed", slog.String("cert_file", c.cfg.CertFile), slog.Any("error", err))
	case !slices.EqualFunc(pair.Certificate, c.pair.Certificate, bytes.Equal):
		c.logger.Info("certificate renewed", slog.String("cert_file", c.cfg.CertFile))
		c.pair = &pair
	}
	return c.pair, nil
}

// observe reports the certificate's expiry. Like a handshake, it first renews the certificate.
func (c *serverCertificate) observe(_ context.Context, o metric.Int64Observer) error {
	pair, _ := c.get(nil) // get never fails
	o.Observe(pair.Leaf.NotAfter.Unix())
	return nil
}

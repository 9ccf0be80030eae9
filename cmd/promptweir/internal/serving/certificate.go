package serving

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/config"
)

// certificateInterval is the least time between two checks of the certificate's files. Handshakes
// trigger the checks.
const certificateInterval = 10 * time.Second

// serverCertificate is the endpoint's certificate. It follows its files when they are renewed.
type serverCertificate struct {
	cfg    *config.ServerTLS
	logger *slog.Logger

	current atomic.Pointer[loadedCertificate]
	// checked is when the files were last checked; nil before the first time.
	checked atomic.Pointer[time.Time]
}

// loadedCertificate is a certificate with the state of its files when it was loaded.
type loadedCertificate struct {
	pair  tls.Certificate
	files [2]fileStamp
}

// fileStamp tells a file from its renewed version.
type fileStamp struct {
	modified time.Time
	size     int64
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
	certificate := &serverCertificate{cfg: cfg.Gateway.TLS, logger: logger}
	certificate.current.Store(&loadedCertificate{pair: pair})
	settings.GetCertificate = certificate.get
	return settings, nil
}

// get is for tls.Config.GetCertificate. One handshake at a time checks the files. If they cannot be
// loaded, the previous certificate stays in use.
func (c *serverCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	checked := c.checked.Load()
	if now := time.Now(); (checked == nil || now.Sub(*checked) >= certificateInterval) &&
		c.checked.CompareAndSwap(checked, &now) {
		if err := c.renew(); err != nil {
			c.logger.Warn("certificate not renewed", slog.String("cert_file", c.cfg.CertFile),
				slog.Any("error", err))
		}
	}
	return &c.current.Load().pair, nil
}

// renew loads the files if they have changed. While only one of the two has been replaced, the key
// does not match, and the next check tries again.
func (c *serverCertificate) renew() error {
	var files [2]fileStamp
	for i, path := range []string{c.cfg.CertFile, c.cfg.KeyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		files[i] = fileStamp{info.ModTime(), info.Size()}
	}
	before := c.current.Load()
	if files == before.files {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cfg.CertFile, c.cfg.KeyFile)
	if err != nil {
		return err
	}
	c.current.Store(&loadedCertificate{pair, files})
	if before.files != [2]fileStamp{} { // the first check only records the stamps
		c.logger.Info("certificate renewed", slog.String("cert_file", c.cfg.CertFile))
	}
	return nil
}

package serving

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
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
	return settings, nil
}

// get is for tls.Config.GetCertificate. If the files cannot be loaded, the previous certificate
// stays in use.
func (c *serverCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= certificateInterval {
		c.checked = now
		if err := c.renew(); err != nil {
			c.logger.Warn("certificate not renewed", slog.String("cert_file", c.cfg.CertFile),
				slog.Any("error", err))
		}
	}
	return c.pair, nil
}

// renew loads the files if they have changed. While only one of the two has been replaced, the key
// does not match, and the next check tries again.
func (c *serverCertificate) renew() error {
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

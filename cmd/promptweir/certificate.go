package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/promptweir/promptweir/config"
)

// lookAgain is how often the files of the certificate are looked at, when somebody connects.
const lookAgain = 10 * time.Second

// certificate is what clients are shown. It follows its files when they are renewed.
type certificate struct {
	from   *config.ServerTLS
	logger *slog.Logger

	current atomic.Pointer[shownCertificate]
	// looked is when the files were looked at last, in nanoseconds since 1970.
	looked atomic.Int64
}

// shownCertificate is a certificate and what its files were then.
type shownCertificate struct {
	tls.Certificate

	files [2]fileStamp
}

type fileStamp struct {
	modified time.Time
	size     int64
}

// serverTLS returns how the endpoint's connections are made; nil means in plain.
func serverTLS(cfg *config.Config, logger *slog.Logger) (*tls.Config, error) {
	if cfg.Gateway.TLS == nil {
		return nil, nil //nolint:nilnil // net/http takes nil as none too
	}
	c, err := cfg.Gateway.TLS.ServerConfig(cfg.Auth.RequiresClientCertificate())
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	pair, err := tls.X509KeyPair([]byte(cfg.Gateway.TLS.Certificate.Reveal()), []byte(cfg.Gateway.TLS.Key.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	shown := &certificate{from: cfg.Gateway.TLS, logger: logger}
	shown.current.Store(&shownCertificate{Certificate: pair})
	c.GetCertificate = shown.get
	return c, nil
}

// get is for tls.Config.GetCertificate. One caller at a time looks at the files; what is wrong with them leaves the
// certificate that was good.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	looked := c.looked.Load()
	if now := time.Now().UnixNano(); now-looked >= int64(lookAgain) && c.looked.CompareAndSwap(looked, now) {
		if err := c.renew(); err != nil {
			c.logger.Warn("certificate not renewed", slog.String("cert_file", c.from.CertFile), slog.Any("error", err))
		}
	}
	return &c.current.Load().Certificate, nil
}

func (c *certificate) renew() error {
	var files [2]fileStamp
	for i, path := range []string{c.from.CertFile, c.from.KeyFile} {
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
	pair, err := tls.LoadX509KeyPair(c.from.CertFile, c.from.KeyFile)
	if err != nil {
		return err
	}
	c.current.Store(&shownCertificate{pair, files})
	if before.files != [2]fileStamp{} {
		c.logger.Info("certificate renewed", slog.String("cert_file", c.from.CertFile))
	}
	return nil
}

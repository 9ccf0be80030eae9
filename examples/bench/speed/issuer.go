package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	audience  = "https://prompts.example.com/mcp"
	tokenLife = time.Hour
)

// issuer is an OpenID provider with one key, which has issued one token.
type issuer struct {
	url, token string
	keys       []byte
}

// newIssuer starts a provider, which the stage stops.
func (st *stage) newIssuer(ctx context.Context, claims map[string]any) (*issuer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	i := &issuer{url: "http://" + listener.Addr().String()}
	server := &http.Server{Handler: i, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until Close
	st.stops = append(st.stops, func() { _ = server.Close() })
	claims["iss"], claims["aud"], claims["exp"] = i.url, audience, time.Now().Add(tokenLife).Unix()
	return i, i.sign(claims)
}

func (i *issuer) sign(claims map[string]any) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private := jose.JSONWebKey{Key: key, KeyID: "1", Algorithm: string(jose.ES256), Use: "sig"}
	if i.keys, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{private.Public()}}); err != nil {
		return err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, nil)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return err
	}
	i.token, err = signed.CompactSerialize()
	return err
}

// ServeHTTP implements [http.Handler]. It serves the keys and the discovery document.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/keys" {
		_, _ = w.Write(i.keys) // fails only if the gateway has gone
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.url, "jwks_uri": i.url + "/keys"}) // as above
}

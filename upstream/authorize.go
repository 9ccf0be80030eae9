package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// discoveryBound is how long it may take to find out who authorizes the clients of a server.
	discoveryBound = 20 * time.Second
	// maxMetadata bounds a metadata document, in bytes.
	maxMetadata = 1 << 20
)

// Authorization says who gives out the access tokens of a server, and for what.
type Authorization struct {
	Issuer   string
	TokenURL string
	// Scopes are those that the server asks for; none where it does not say.
	Scopes []string
	// Resource is what the tokens are for.
	Resource string
}

// DiscoverAuthorization asks a server without a token, and follows its refusal: to its protected resource metadata (RFC 9728)
// and to the authorization server that this names first (RFC 8414). Whoever then sends a credential to the TokenURL trusts the server
// with that choice: an upstream of a configuration names its token_url itself.
func DiscoverAuthorization(ctx context.Context, u config.Upstream, opts Options) (Authorization, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryBound)
	defer cancel()
	client := &http.Client{Transport: newNetwork(1, u.TLS, opts.Forbidden), CheckRedirect: noRedirects}
	defer client.CloseIdleConnections()
	server, err := url.Parse(u.URLs[0])
	if err != nil {
		return Authorization{}, err
	}
	challenge, err := challengeOf(ctx, client, server)
	if err != nil {
		return Authorization{}, err
	}
	resource, err := resourceMetadata(ctx, client, server, challenge["resource_metadata"])
	if err != nil {
		return Authorization{}, fmt.Errorf("protected resource metadata: %w", err)
	}
	found := Authorization{Issuer: resource.Servers[0], Resource: resource.Resource, Scopes: resource.Scopes}
	if scope := challenge["scope"]; scope != "" {
		found.Scopes = strings.Fields(scope)
	}
	if found.TokenURL, err = tokenEndpoint(ctx, client, found.Issuer); err != nil {
		return Authorization{}, fmt.Errorf("authorization server %s: %w", found.Issuer, err)
	}
	return found, nil
}

// challengeOf returns the parameters of a server's refusal.
func challengeOf(ctx context.Context, client *http.Client, server *url.URL) (map[string]string, error) {
	body := wire.AppendRequest(nil, 1, wire.Ping, nil)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.String(), strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", wire.ContentJSON)
	r.Header.Set("Accept", wire.ContentJSON+", "+wire.ContentSSE)
	response, err := client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		return nil, fmt.Errorf("HTTP status %s without a token: nothing says who authorizes", response.Status)
	}
	for _, value := range response.Header.Values("WWW-Authenticate") {
		if scheme, parameters, _ := strings.Cut(value, " "); strings.EqualFold(scheme, "Bearer") {
			return authParameters(parameters), nil
		}
	}
	return nil, nil //nolint:nilnil // a refusal may say nothing
}

// authParameters reads name="value" pairs with commas between them (RFC 9110, section 11.2).
func authParameters(s string) map[string]string {
	parameters := map[string]string{}
	for {
		name, rest, ok := strings.Cut(s, "=")
		if !ok {
			return parameters
		}
		var value string
		if quoted, isQuoted := strings.CutPrefix(strings.TrimLeft(rest, " "), `"`); isQuoted {
			var text strings.Builder
			i := 0
			for ; i < len(quoted) && quoted[i] != '"'; i++ {
				if quoted[i] == '\\' && i+1 < len(quoted) {
					i++
				}
				text.WriteByte(quoted[i])
			}
			value, rest = text.String(), quoted[min(i+1, len(quoted)):]
			_, rest, _ = strings.Cut(rest, ",")
		} else {
			value, rest, _ = strings.Cut(rest, ",")
			value = strings.TrimSpace(value)
		}
		parameters[strings.ToLower(strings.TrimSpace(name))] = value
		s = rest
	}
}

// protectedResource is what a server says of itself.
type protectedResource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// resourceMetadata reads what a server says of itself: where its refusal said, else below its path, else at its root.
func resourceMetadata(ctx context.Context, client *http.Client, server *url.URL, said string) (protectedResource, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	places := []string{said}
	if said == "" {
		root := server.Scheme + "://" + server.Host + wellKnown
		places = slices.Compact([]string{root + strings.TrimSuffix(server.EscapedPath(), "/"), root})
	}
	var resource protectedResource
	err := firstDocument(ctx, client, places, &resource)
	switch {
	case err != nil:
		return resource, err
	case !contains(resource.Resource, server):
		return resource, errors.New("it is that of another resource")
	case len(resource.Servers) == 0:
		return resource, errors.New("it names no authorization server")
	}
	return resource, nil
}

// contains reports whether a server is a resource, or a part of it.
func contains(resource string, server *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || u.Scheme != server.Scheme || !strings.EqualFold(u.Host, server.Host) {
		return false
	}
	return strings.HasPrefix(strings.TrimSuffix(server.Path, "/")+"/", strings.TrimSuffix(u.Path, "/")+"/")
}

// tokenEndpoint reads an authorization server's metadata (2026-07-28, Authorization Server Metadata Discovery).
func tokenEndpoint(ctx context.Context, client *http.Client, issuer string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil || !confidential(u) {
		return "", errors.New("it is not at an https URL")
	}
	root, path := u.Scheme+"://"+u.Host+"/.well-known/", strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{root + "oauth-authorization-server" + path, root + "openid-configuration" + path}
	if path != "" {
		places = append(places, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	}
	var metadata struct {
		Issuer        string `json:"issuer"`
		TokenEndpoint string `json:"token_endpoint"`
	}
	if err := firstDocument(ctx, client, places, &metadata); err != nil {
		return "", err
	}
	if metadata.Issuer != issuer {
		return "", errors.New("its metadata is that of another issuer")
	}
	if endpoint, err := url.Parse(metadata.TokenEndpoint); err != nil || !confidential(endpoint) {
		return "", errors.New("its token endpoint is not at an https URL")
	}
	return metadata.TokenEndpoint, nil
}

// confidential reports whether nobody on the way to an address can read what is sent there.
func confidential(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && loopback)
}

// firstDocument reads the first JSON document that is found.
func firstDocument(ctx context.Context, client *http.Client, places []string, into any) error {
	var failures []error
	for _, place := range places {
		err := readDocument(ctx, client, place, into)
		if err == nil {
			return nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", place, err))
	}
	return errors.Join(failures...)
}

func readDocument(ctx context.Context, client *http.Client, place string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", wire.ContentJSON)
	response, err := client.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %s", response.Status)
	}
	return json.NewDecoder(io.LimitReader(response.Body, maxMetadata)).Decode(into)
}

package client

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
	// discoveryTimeout is how long the discovery may take as a whole.
	discoveryTimeout = 20 * time.Second
	// maxMetadata bounds a metadata document, in bytes.
	maxMetadata = 1 << 20
)

// Authorization says where the access tokens of a server come from.
type Authorization struct {
	Issuer   string
	TokenURL string
	// Scopes are those that the server asks for; none if it does not say.
	Scopes []string
	// Resource is the resource indicator of the tokens (RFC 8707).
	Resource string
}

// DiscoverAuthorization sends a request without a token and follows the refusal: to the server's
// protected resource metadata (RFC 9728), and from there to the first authorization server that it
// names (RFC 8414). Sending credentials to the TokenURL that it finds means to trust the server
// with that choice; the gateway itself uses only a configured token_url.
func DiscoverAuthorization(ctx context.Context, upstream config.Upstream, opts Options) (Authorization, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	client := &http.Client{Transport: newNetwork(1, upstream.TLS, opts.DialGuard), CheckRedirect: noRedirects}
	defer client.CloseIdleConnections()
	server, err := url.Parse(upstream.URLs[0])
	if err != nil {
		return Authorization{}, err
	}
	parameters, err := challenge(ctx, client, server)
	if err != nil {
		return Authorization{}, err
	}
	resource, err := resourceMetadata(ctx, client, server, parameters["resource_metadata"])
	if err != nil {
		return Authorization{}, fmt.Errorf("protected resource metadata: %w", err)
	}
	found := Authorization{Issuer: resource.Servers[0], Resource: resource.Resource, Scopes: resource.Scopes}
	if scope := parameters["scope"]; scope != "" {
		found.Scopes = strings.Fields(scope)
	}
	if found.TokenURL, err = tokenEndpoint(ctx, client, found.Issuer); err != nil {
		return Authorization{}, fmt.Errorf("authorization server %s: %w", found.Issuer, err)
	}
	return found, nil
}

// challenge returns the parameters of the challenge with which the server refuses a request.
func challenge(ctx context.Context, client *http.Client, server *url.URL) (map[string]string, error) {
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
		return nil, fmt.Errorf("HTTP status %s without a token, want 401: the server does not ask for authorization", response.Status)
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

// protectedResource is the metadata of a protected resource (RFC 9728, section 2).
type protectedResource struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// resourceMetadata reads the server's metadata: where the challenge says, else for its path, else
// for its host.
func resourceMetadata(ctx context.Context, client *http.Client, server *url.URL, challenged string) (protectedResource, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	places := []string{challenged}
	if challenged == "" {
		root := server.Scheme + "://" + server.Host + wellKnown
		places = slices.Compact([]string{root + strings.TrimSuffix(server.EscapedPath(), "/"), root})
	}
	var resource protectedResource
	err := firstDocument(ctx, client, places, &resource)
	switch {
	case err != nil:
		return resource, err
	case !contains(resource.Resource, server):
		return resource, errors.New("it describes another resource")
	case len(resource.Servers) == 0:
		return resource, errors.New("it names no authorization server")
	}
	return resource, nil
}

// contains reports whether a server is a resource or part of it.
func contains(resource string, server *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || u.Scheme != server.Scheme || !strings.EqualFold(u.Host, server.Host) {
		return false
	}
	return strings.HasPrefix(strings.TrimSuffix(server.Path, "/")+"/", strings.TrimSuffix(u.Path, "/")+"/")
}

// tokenEndpoint reads an authorization server's metadata (2026-07-28, Authorization Server Metadata
// Discovery).
func tokenEndpoint(ctx context.Context, client *http.Client, issuer string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil || !confidential(u) {
		return "", errors.New("the issuer is not an https URL")
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
		return "", errors.New("its metadata names another issuer")
	}
	if endpoint, err := url.Parse(metadata.TokenEndpoint); err != nil || !confidential(endpoint) {
		return "", errors.New("its token endpoint is not an https URL")
	}
	return metadata.TokenEndpoint, nil
}

// confidential reports whether requests to a URL are encrypted or stay on this machine.
func confidential(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && loopback)
}

// firstDocument reads the first JSON document that is found at one of the places.
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

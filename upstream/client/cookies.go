package client

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"sync"
	"sync/atomic"
)

const (
	// maxCookies and maxCookieBytes bound the cookies of a session, in number and in bytes.
	maxCookies     = 32
	maxCookieBytes = 8 << 10
)

// cookies are the cookies of one session. A load balancer may use them to pin the session to a
// replica. All requests of a session have the same origin, and the cookies are sent nowhere else.
// The zero value is ready.
type cookies struct {
	jar atomic.Pointer[cookiejar.Jar] // nil before the first cookie

	mu    sync.Mutex     // guards the fields below
	sizes map[string]int // bytes of each cookie, by name, domain and path
	bytes int            // sum of sizes
}

// header returns the Cookie header of a request to a URL. A configured cookie replaces a cookie of
// the server with the same name.
func (c *cookies) header(to *url.URL, configured string) string {
	jar := c.jar.Load()
	if jar == nil {
		return configured
	}
	all := &http.Request{Header: http.Header{}}
	if configured != "" {
		all.Header.Set("Cookie", configured)
	}
	for _, cookie := range jar.Cookies(to) {
		if _, err := all.Cookie(cookie.Name); err != nil {
			all.AddCookie(cookie)
		}
	}
	return all.Header.Get("Cookie")
}

// keep stores the cookies of a response, within the bounds.
func (c *cookies) keep(from *url.URL, came *http.Response) {
	if len(came.Header["Set-Cookie"]) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sizes == nil {
		c.sizes = map[string]int{}
		jar, _ := cookiejar.New(nil) // without options it never fails
		c.jar.Store(jar)
	}
	var accepted []*http.Cookie
	for _, cookie := range came.Cookies() {
		key := cookie.Name + ";" + cookie.Domain + ";" + cookie.Path
		before, exists := c.sizes[key]
		size := len(cookie.Name) + len(cookie.Value)
		if !exists && len(c.sizes) >= maxCookies || c.bytes+size-before > maxCookieBytes {
			continue
		}
		c.bytes += size - before
		c.sizes[key] = size
		accepted = append(accepted, cookie)
	}
	c.jar.Load().SetCookies(from, accepted)
}

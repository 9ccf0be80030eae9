package http1

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Fields are header fields in the form in which they are sent. The zero value has no fields.
type Fields struct {
	lines []byte
	err   error
}

// Add adds a field. If the name or value is invalid, such as a value with a line break, [Client.Do]
// sends nothing and returns an error without the value, which may be secret.
func (f *Fields) Add(name, value string) {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		f.err = fmt.Errorf("%q is not the name of a header", name)
	case !httpguts.ValidHeaderFieldValue(value):
		f.err = fmt.Errorf("the value of the header %s has a line break or control character", name)
	default:
		if f.lines == nil {
			f.lines = make([]byte, 0, 256+len(value))
		}
		f.lines = append(f.lines, name...)
		f.lines = append(f.lines, ": "...)
		f.lines = append(f.lines, strings.Trim(value, " \t")...)
		f.lines = append(f.lines, "\r\n"...)
	}
}

// Head is the method, URL and header fields of many requests. It is immutable.
type Head struct {
	// request holds the method and URL, for http.ReadResponse and [http.Response.Request].
	request *http.Request
	target  string
	fields  Fields
}

// NewHead returns the head of requests to a URL. It adds Host; [Head.Append] adds Content-Length. It copies header. If the
// URL or a field is invalid, [Client.Do] returns the error.
func NewHead(method string, u *url.URL, header http.Header) *Head {
	h := &Head{request: &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}}, target: u.RequestURI()}
	host, err := httpguts.PunycodeHostPort(u.Host)
	if err != nil || host == "" || !httpguts.ValidHostHeader(host) || strings.ContainsAny(h.target, " \r\n") {
		h.fields.err = errors.New("the URL cannot be sent: it has no host, or its host is not a name, or it has a blank or line break")
	}
	h.fields.Add("Host", host)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			h.fields.Add(name, value)
		}
	}
	return h
}

// URL returns the URL. Do not change it.
func (h *Head) URL() *url.URL { return h.request.URL }

// Append appends the bytes of a request that is sent over a link. extra are the fields of this request only. A nil body
// adds no Content-Length.
func (h *Head) Append(out []byte, over *Link, extra Fields, body []byte) ([]byte, error) {
	if err := cmp.Or(h.fields.err, over.Fields.err, extra.err); err != nil {
		return out, err
	}
	out = append(append(out, h.request.Method...), ' ')
	out = append(append(append(out, over.Origin...), h.target...), " HTTP/1.1\r\n"...)
	out = append(append(append(out, h.fields.lines...), over.Fields.lines...), extra.lines...)
	if body != nil {
		out = strconv.AppendInt(append(out, "Content-Length: "...), int64(len(body)), 10)
		out = append(out, "\r\n"...)
	}
	return append(append(out, "\r\n"...), body...), nil
}

// hasLength reports whether the head of a response has a Content-Length.
func hasLength(head []byte) bool {
	for line := range bytes.Lines(head) {
		if name, _, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			return true
		}
	}
	return false
}

package wire

import (
	"encoding/base64"
	"errors"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// EncodeHeader returns text as the value of an Mcp-Name header: as it is if that is safe, else in
// the Base64 sentinel (2026-07-28, Streamable HTTP, "Value Encoding").
func EncodeHeader(text string) string {
	// What only looks like the sentinel is encoded too, or the receiver would decode it.
	if plainHeader(text) && !isSentinel(text) {
		return text
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelSuffix
}

// DecodeHeader undoes [EncodeHeader].
func DecodeHeader(value string) (string, error) {
	if !isSentinel(value) {
		if !plainHeader(value) {
			return "", errors.New("invalid characters in header value")
		}
		return value, nil
	}
	encoded := value[len(sentinelPrefix) : len(value)-len(sentinelSuffix)]
	// Strict, because otherwise several encodings would mean the same name.
	text, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // the decoder skips line breaks
		return "", errors.New("invalid Base64 in header value")
	}
	if !utf8.Valid(text) {
		return "", errors.New("invalid UTF-8 in header value")
	}
	return string(text), nil
}

func isSentinel(value string) bool {
	return len(value) >= len(sentinelPrefix)+len(sentinelSuffix) &&
		strings.HasPrefix(value, sentinelPrefix) && strings.HasSuffix(value, sentinelSuffix)
}

// plainHeader reports whether text survives in a header as it is.
func plainHeader(text string) bool {
	// HTTP drops the white space around a value (RFC 9110, section 5.5).
	if text == "" || strings.Trim(text, " \t") != text {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < 0x20 && c != '\t') || c > 0x7e {
			return false
		}
	}
	return true
}

// Header returns the first value of a header. The name must be in canonical form, as the constants
// of this package are: [http.Header.Get] would convert it each time.
func Header(header http.Header, name string) string {
	if values := header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// MediaType returns the media type of a Content-Type header, without parameters; empty if it is
// invalid.
func MediaType(contentType string) string {
	if contentType == ContentJSON || contentType == ContentSSE { // nearly always
		return contentType
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return mediaType
}

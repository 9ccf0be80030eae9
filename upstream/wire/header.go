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

// EncodeHeader returns a text as the value of an Mcp-Name header: unchanged if HTTP transports it
// safely, otherwise in the Base64 sentinel (2026-07-28, Streamable HTTP, "Value Encoding").
func EncodeHeader(text string) string {
	// Encode a text that looks like the sentinel, too, because the receiver would decode it.
	if plainHeader(text) && !isSentinel(text) {
		return text
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelSuffix
}

// DecodeHeader is the inverse of [EncodeHeader]. It returns an error for a value that EncodeHeader
// cannot have made.
func DecodeHeader(value string) (string, error) {
	if !isSentinel(value) {
		if !plainHeader(value) {
			return "", errors.New("invalid characters in header value")
		}
		return value, nil
	}
	encoded := value[len(sentinelPrefix) : len(value)-len(sentinelSuffix)]
	// Decode strictly, because otherwise several encodings would mean the same name.
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

// plainHeader reports whether a header can carry the text unchanged.
func plainHeader(text string) bool {
	isOdd := func(r rune) bool { return r < 0x20 && r != '\t' || r > 0x7e }
	// HTTP drops white space around a value (RFC 9110, section 5.5).
	return text != "" && strings.Trim(text, " \t") == text && !strings.ContainsFunc(text, isOdd)
}

// Header returns the first value of a header, or "". The name must be in canonical form, like the constants of this package:
// [http.Header.Get] would convert it at each call.
func Header(header http.Header, name string) string {
	if values := header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// MediaType returns the media type in a Content-Type header, without its parameters. It returns ""
// for an invalid header.
func MediaType(contentType string) string {
	if contentType == ContentJSON || contentType == ContentSSE { // the usual values need no parser
		return contentType
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return mediaType
}

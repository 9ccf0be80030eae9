package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// maxPages bounds the pages of one list. Some servers return a next cursor on every page.
	maxPages = 1000
	// maxListBytes bounds the total size of all pages of prompts and skills.
	maxListBytes = 64 << 20
	// listTimeout bounds the time for one list.
	listTimeout = 2 * time.Minute
	// maxTTL bounds the TTL of a server's list, in milliseconds.
	maxTTL = 24 * 60 * 60 * 1000
)

// listMembers maps each list method to the member with the elements of the list.
var listMembers = map[string]string{wire.PromptsList: "prompts", wire.SkillsList: "skills"} //nolint:gochecknoglobals // a constant table

// List is a server's complete list of prompts, followed by its skills if they are served.
type List struct {
	// Definitions are the elements as the server sent them, including definitions that
	// [wire.ParseObject] refuses.
	Definitions []jsontext.Value
	// TTL is the time for which the server declares the list fresh, or 0 if the server declares
	// none.
	TTL time.Duration
	// Meta is the _meta of the last page as the server sent it, or nil if that page has none.
	Meta jsontext.Value
	// Unknown are the list methods that the server refuses with MethodNotFound although it declares the feature.
	Unknown []string
	// Bytes is the size of all pages, including a refused page.
	Bytes int
	// Pages counts the definitions on each page.
	Pages []int
}

// List requests all pages of the server's prompts, and of its skills if they are served. A list is never truncated: if
// a request fails or a bound is exceeded, the result has only Bytes and Pages. Each page has the upstream's timeout.
func (s *Session) List(ctx context.Context, maxPrompts int) (all List, err error) {
	if s.Declared.Prompts && s.server.Skills != config.SkillsOnly {
		err = s.list(ctx, wire.PromptsList, maxPrompts, &all)
	}
	if err == nil && s.ServesSkills() {
		err = s.list(ctx, wire.SkillsList, maxPrompts, &all)
	}
	if err != nil {
		return List{Bytes: all.Bytes, Pages: all.Pages}, err
	}
	return all, nil
}

// ServesSkills reports whether the server declares skills and the upstream serves them.
func (s *Session) ServesSkills() bool { return s.Declared.Skills && s.server.Skills != "" }

// list requests all pages of one list, and adds them to all.
func (s *Session) list(ctx context.Context, method string, most int, all *List) error {
	var (
		params  wire.Object
		cursors = map[string]bool{}
		begun   = time.Now()
	)
	for range maxPages {
		p, err := requestPage(ctx, s, method, params)
		all.Bytes += p.size
		// For the first page, MethodNotFound means an empty list. For a later page it is a failure.
		if wireErr, ok := errors.AsType[*wire.Error](err); ok && wireErr.Code == wire.MethodNotFound && len(params) == 0 {
			all.Unknown = append(all.Unknown, method) // some servers declare prompts although they have none
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		all.Definitions, all.Meta = append(all.Definitions, p.definitions...), p.meta
		all.Pages = append(all.Pages, len(p.definitions))
		// The shortest TTL of a page applies to the whole list.
		if all.TTL == 0 || (p.ttl > 0 && p.ttl < all.TTL) {
			all.TTL = p.ttl
		}
		switch {
		case len(all.Definitions) > most:
			return &ListError{fmt.Sprintf("more than max_prompts = %d prompts", s.server.MaxPrompts)}
		case all.Bytes > maxListBytes:
			return &ListError{fmt.Sprintf("all pages together are larger than %d bytes", maxListBytes)}
		case p.next == nil:
			return nil
		case bytes.Equal(p.next, params.Get("cursor")) && !p.repeats(all.Definitions):
			s.dialer.logger.WarnContext(ctx, "the last page of the list repeats its own cursor: the list ends there", slog.String("method", method))
			return nil
		case cursors[string(p.next)]:
			return &ListError{"the server repeats a cursor, so the list would never end"}
		case time.Since(begun) > listTimeout:
			return &ListError{fmt.Sprintf("the list takes longer than %s", listTimeout)}
		}
		// Cursors are opaque. They are sent back byte for byte, escapes included.
		cursors[string(p.next)] = true
		params = wire.Object{}.With("cursor", p.next)
	}
	return &ListError{fmt.Sprintf("more than %d pages", maxPages)}
}

// page is one page of a list.
type page struct {
	definitions []jsontext.Value
	// next is the cursor as the server sent it, or nil on the last page.
	next jsontext.Value
	meta jsontext.Value
	ttl  time.Duration
	// size is the size of the whole result, even if the page is refused. The definitions share the memory of the result
	// and keep all of it alive.
	size int
}

// repeats reports whether the last page repeats the one before it, because the server ignores
// cursors.
func (p page) repeats(all []jsontext.Value) bool {
	n := len(p.definitions)
	before := all[:len(all)-n]
	return n > 0 && len(before) >= n && slices.EqualFunc(before[len(before)-n:], p.definitions, func(a, b jsontext.Value) bool {
		return bytes.Equal(a, b)
	})
}

// requestPage requests one page, within the upstream's timeout.
func requestPage(ctx context.Context, s *Session, method string, params wire.Object) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, s.server.Timeout)
	defer cancel()
	result, err := s.Call(ctx, &Request{Method: method, Params: params}, nil)
	if nonsense, ok := errors.AsType[*ProtocolError](err); ok && nonsense.oversized {
		return page{size: s.server.MaxMessage}, err
	}
	if err != nil {
		return page{}, err
	}
	p := page{size: len(result.JSON)}
	// Do not use ParseObject: it would refuse the page because of one invalid definition, which readers of the list
	// leave out.
	object := wire.Members(result.JSON)
	p.meta = object.Get("_meta")
	definitions := object.Get(listMembers[method])
	if definitions == nil || definitions.Kind() == 'n' { // some serializers write an empty list as null
		definitions = jsontext.Value("[]")
	}
	if p.definitions, err = wire.ParseArray(definitions); err != nil {
		return p, &ProtocolError{problem: listMembers[method] + " is not an array"}
	}
	p.next = object.Get("nextCursor")
	switch {
	case p.next.Kind() == 'n', string(p.next) == `""` && !wire.Modern(s.Revision):
		p.next = nil // an empty cursor is a cursor only in 2026-07-28
	case p.next != nil && p.next.Kind() != '"':
		return p, &ProtocolError{problem: "nextCursor is not a string"}
	}
	// Ignore zero. The schema requires the member, so servers without a TTL send zero.
	milliseconds, err := strconv.ParseFloat(string(object.Get("ttlMs")), 64)
	if err == nil && milliseconds > 0 && wire.Modern(s.Revision) {
		p.ttl = time.Duration(min(milliseconds, maxTTL)) * time.Millisecond
	}
	return p, nil
}

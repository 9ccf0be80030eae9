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
	// maxPages bounds one list: some servers never end their pages.
	maxPages = 1000
	// maxListBytes bounds the pages of one list together.
	maxListBytes = 64 << 20
	// listTimeout is how long one list may take.
	listTimeout = 2 * time.Minute
	// maxTTL bounds the TTL that a server may give its list, in milliseconds.
	maxTTL = 24 * 60 * 60 * 1000
)

// listMembers are the members that hold the elements of the lists, by method.
var listMembers = map[string]string{wire.PromptsList: "prompts", wire.SkillsList: "skills"} //nolint:gochecknoglobals // a constant table

// List is a server's whole list of prompts, followed by that of its skills where they are served.
type List struct {
	// Definitions are as they were sent. One that [wire.ParseObject] refuses is among them.
	Definitions []jsontext.Value
	// TTL is how long the server says that the list stays fresh; 0 if it does not say.
	TTL time.Duration
	// Meta is the _meta of the last page, as it was sent; nil if it has none.
	Meta jsontext.Value
	// Unknown has the methods that list what the server declared, and that it does not know. Nothing
	// of what they list is among the definitions.
	Unknown []string
	// Bytes is how much the server sent for it.
	Bytes int
	// Pages has the number of prompts of each page.
	Pages []int
}

// List walks all pages of the server's prompts, and of its skills if they are served. It returns the
// whole list or, with no more than its Bytes and Pages, an error: a list is never cut silently. Each
// page has the upstream's timeout.
func (s *Session) List(ctx context.Context, maxPrompts int) (all List, err error) {
	if s.Declared.prompts && s.server.Skills != config.SkillsOnly {
		if all, err = s.list(ctx, wire.PromptsList, maxPrompts); err != nil {
			return all, err
		}
	}
	if !s.ServesSkills() {
		return all, nil
	}
	skills, err := s.list(ctx, wire.SkillsList, maxPrompts-len(all.Definitions))
	skills.Bytes, skills.Pages = skills.Bytes+all.Bytes, append(all.Pages, skills.Pages...)
	if err != nil {
		return skills, err
	}
	skills.Definitions = append(all.Definitions, skills.Definitions...)
	skills.Unknown = append(all.Unknown, skills.Unknown...)
	if skills.TTL == 0 || all.TTL > 0 && all.TTL < skills.TTL {
		skills.TTL = all.TTL
	}
	return skills, nil
}

// ServesSkills reports whether the server declares skills, and the upstream serves them.
func (s *Session) ServesSkills() bool { return s.Declared.skills && s.server.Skills != "" }

// list walks all pages of one of the lists.
func (s *Session) list(ctx context.Context, method string, most int) (all List, err error) {
	defer func() {
		if err != nil {
			all = List{Bytes: all.Bytes, Pages: all.Pages}
		}
	}()
	var (
		params  wire.Object
		cursors = map[string]bool{}
		begun   = time.Now()
	)
	for range maxPages {
		p, err := requestPage(ctx, s, method, params)
		all.Bytes += p.size
		// On the first page only: of a list that has begun, it is a failure.
		if wireErr, ok := errors.AsType[*wire.Error](err); ok && wireErr.Code == wire.MethodNotFound && len(params) == 0 {
			return List{Unknown: []string{method}}, nil // some servers declare prompts and have none
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", method, err)
		}
		all.Definitions, all.Meta = append(all.Definitions, p.definitions...), p.meta
		all.Pages = append(all.Pages, len(p.definitions))
		// The list is as old as its oldest page when the first TTL is over.
		if all.TTL == 0 || (p.ttl > 0 && p.ttl < all.TTL) {
			all.TTL = p.ttl
		}
		switch {
		case len(all.Definitions) > most:
			return all, &ListError{fmt.Sprintf("more than max_prompts = %d prompts", s.server.MaxPrompts)}
		case all.Bytes > maxListBytes:
			return all, &ListError{fmt.Sprintf("all pages together are larger than %d bytes", maxListBytes)}
		case p.next == nil:
			return all, nil
		case bytes.Equal(p.next, params.Get("cursor")) && !p.repeats(all):
			s.dialer.logger.WarnContext(ctx, "the last page of the list repeats its own cursor: the list ends there", slog.String("method", method))
			return all, nil
		case cursors[string(p.next)]:
			return all, &ListError{"the server repeats a cursor, so the list would never end"}
		case time.Since(begun) > listTimeout:
			return all, &ListError{fmt.Sprintf("the list takes longer than %s", listTimeout)}
		}
		// Cursors are opaque: they go back byte for byte as they came, escapes included.
		cursors[string(p.next)] = true
		params = wire.Object{}.With("cursor", p.next)
	}
	return all, &ListError{fmt.Sprintf("more than %d pages", maxPages)}
}

// page is one page of a list.
type page struct {
	definitions []jsontext.Value
	// next is the cursor as it was sent; nil on the last page.
	next jsontext.Value
	meta jsontext.Value
	ttl  time.Duration
	// size is that of the whole result, because the definitions alias it and keep it in memory. It
	// is known of one that was refused, too.
	size int
}

// repeats reports whether the last page of a list has the definitions of the page before it: its server
// ignores cursors.
func (p page) repeats(all List) bool {
	n := len(p.definitions)
	before := all.Definitions[:len(all.Definitions)-n]
	return n > 0 && len(before) >= n && slices.EqualFunc(before[len(before)-n:], p.definitions, func(a, b jsontext.Value) bool {
		return bytes.Equal(a, b)
	})
}

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
	// Not ParseObject, because single definitions may be invalid: whoever reads them leaves them
	// out.
	object := wire.Members(result.JSON)
	p.meta = object.Get("_meta")
	definitions := object.Get(listMembers[method])
	if definitions == nil || definitions.Kind() == 'n' { // how some serializers write an empty list
		definitions = jsontext.Value("[]")
	}
	if p.definitions, err = wire.ParseArray(definitions); err != nil {
		return p, &ProtocolError{problem: listMembers[method] + " is not an array"}
	}
	next := object.Get("nextCursor")
	switch {
	case next.Kind() == 'n', string(next) == `""` && !wire.Modern(s.Revision):
		next = nil // only 2026-07-28 says that an empty cursor is a cursor
	case next != nil && next.Kind() != '"':
		return p, &ProtocolError{problem: "nextCursor is not a string"}
	}
	p.next = next
	if wire.Modern(s.Revision) {
		p.ttl = ttl(object)
	}
	return p, nil
}

// ttl returns how long the server says that its result stays fresh.
func ttl(result wire.Object) time.Duration {
	// Zero, which the schema wants from a server that does not care, says nothing about when to
	// list again.
	milliseconds, err := strconv.ParseFloat(string(result.Get("ttlMs")), 64)
	if err != nil || milliseconds <= 0 {
		return 0
	}
	return time.Duration(min(milliseconds, maxTTL)) * time.Millisecond
}

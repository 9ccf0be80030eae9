package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

const (
	// legacyRetryPause is how long a prompt is not tried on a legacy session again after that was
	// of no use.
	legacyRetryPause = time.Minute
	// maxLegacyPrompts bounds the prompts that are remembered.
	maxLegacyPrompts = 10_000
)

// legacyGets are the gets that a server of both eras, which is spoken to in the modern one, can
// answer in the legacy one only: their prompts' handlers send server requests, and SDKs refuse that
// in the modern era, where a result has to require the input. This is the one exception to the rule
// that a request is not made again that the server has answered:
//
//	get ──▶ modern session ──▶ result, or any other error
//	                │
//	                └─ the server cannot ask in this era, the client can be asked, and was told nothing yet
//	                        │
//	                        ▼
//	                legacy session ──▶ result; from now on such gets of the prompt begin here
//	                        │
//	                        └─ an error without having asked ──▶ the modern error
//
// What it learns lasts as long as the connection.
type legacyGets struct {
	logger *slog.Logger
	// pool has the legacy sessions. What is not made on them is made on the modern one.
	pool *sessionPool

	mu sync.Mutex // guards prompts
	// prompts are those that ask so, by name: with the time until which a legacy session is of no
	// use, zero if it is.
	prompts map[string]time.Time
}

func newLegacyGets(ctx context.Context, name string, logger *slog.Logger, modern *client.Session) *legacyGets {
	pool := newSessionPool(ctx, name, logger, modern)
	pool.revision, pool.open, pool.noSession = wire.LatestLegacy, modern.LegacySibling, errNoLegacySession
	return &legacyGets{logger: logger, pool: pool, prompts: map[string]time.Time{}}
}

// begins reports whether a call begins on a legacy session, because its prompt is known to ask so.
func (l *legacyGets) begins(k *call) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	useless, known := l.prompts[k.request.Name]
	l.mu.Unlock()
	return known && useless.IsZero() && l.canAsk(k)
}

// changesEra reports whether a call that ended in err on a session of a pool is to be made in the
// other era: because the server cannot ask its client in the modern one, or because there is no
// session of the legacy one.
func (l *legacyGets) changesEra(k *call, pool *sessionPool, err error) bool {
	switch {
	case err == nil || l == nil:
		return false
	case pool == l.pool:
		return errors.Is(err, errNoLegacySession)
	}
	return client.RefusedServerRequest(err) != "" && l.canAsk(k) && !l.isUseless(k.request.Name)
}

// canAsk reports whether the client of a call can be asked for input during it.
func (l *legacyGets) canAsk(k *call) bool {
	if k.relay.Reply == nil || k.request.Method != wire.PromptsGet {
		return false
	}
	set, _ := l.pool.needed(k.relay)
	return set != 0
}

// isUseless reports whether a legacy session was of no use to a prompt a short time ago.
func (l *legacyGets) isUseless(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.prompts[name])
}

// learn remembers that a prompt is to be had on a legacy session, as an SDK's answer has shown.
func (l *legacyGets) learn(ctx context.Context, name, sdk string) {
	if l.remember(name, time.Time{}) {
		l.logger.WarnContext(ctx, "server requests of the prompt need the legacy era: gets for clients that can be asked use a legacy session",
			slog.String("prompt", name), slog.String("sdk", sdk))
	}
}

// giveUp remembers for a time that a legacy session is of no use to a prompt.
func (l *legacyGets) giveUp(ctx context.Context, name, sdk string) {
	if l.remember(name, time.Now().Add(legacyRetryPause)) {
		l.logger.WarnContext(ctx, "server requests of the prompt need the legacy era, but a legacy session has none either: its gets fail",
			slog.String("prompt", name), slog.String("sdk", sdk))
	}
}

// remember sets until when a legacy session is of no use to a prompt, unless it has been of use,
// and reports whether that is news.
func (l *legacyGets) remember(name string, useless time.Time) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.prompts[name]
	if known && before.IsZero() || !known && len(l.prompts) >= maxLegacyPrompts {
		return false
	}
	l.prompts[name] = useless
	return !known || useless.IsZero()
}

package session

import (
	"context"
	"log/slog"
	"sync"

	"github.com/promptweir/promptweir/upstream/client"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxLegacyPrompts bounds the remembered prompts.
const maxLegacyPrompts = 10_000

// LegacyGets records the prompts that need a legacy session with a server of both eras. Their handlers send server
// requests. SDKs refuse server requests in the modern era, in which a handler must return a result that requires input.
// A refused get is sent again on a legacy session, although a request with an answer is otherwise not sent again:
//
//	get ──▶ modern session ──▶ result, or any other error
//	                │
//	                └─ the server cannot ask in this era, the client can be asked and was not notified
//	                        │
//	                        ▼
//	                legacy session ──▶ result; from now on such gets of the prompt begin here
//	                        │
//	                        └─ an error, and the client was not asked ──▶ the modern error
//
// LegacyGets ends with the connection.
type LegacyGets struct {
	logger *slog.Logger
	// pool holds the legacy sessions. Other requests use the modern session.
	pool *pool

	mu sync.Mutex // guards prompts
	// prompts are the names of the prompts that need a legacy session.
	prompts map[string]bool
}

func newLegacyGets(ctx context.Context, logger *slog.Logger, modern *client.Session) *LegacyGets {
	pool := newPool(ctx, logger, modern)
	pool.revision, pool.open, pool.noSession = wire.LatestLegacy, modern.LegacySibling, ErrNoLegacySession
	return &LegacyGets{logger: logger, pool: pool, prompts: map[string]bool{}}
}

// Begins reports whether a request uses a legacy session from the start: an earlier get of the prompt needed one, and the
// client can answer.
func (l *LegacyGets) Begins(r *client.Request, relay *client.Relay) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	needed := l.prompts[r.Name]
	l.mu.Unlock()
	return needed && l.canAsk(r, relay)
}

// Answers reports whether a request that failed with err in the modern era should be sent in the
// legacy era, because the server cannot ask its client in the modern era.
func (l *LegacyGets) Answers(r *client.Request, relay *client.Relay, err error) bool {
	return l != nil && client.RefusedServerRequest(err) != "" && l.canAsk(r, relay)
}

// canAsk reports whether the client can be asked for input during a request.
func (l *LegacyGets) canAsk(r *client.Request, relay *client.Relay) bool {
	set, _ := l.pool.needed(relay)
	return set != 0 && r.Method != wire.Complete
}

// Learn records that gets of a prompt need a legacy session. refusal is the error of a get in the modern era.
func (l *LegacyGets) Learn(ctx context.Context, name string, refusal error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.prompts[name] || len(l.prompts) >= maxLegacyPrompts {
		return
	}
	l.prompts[name] = true
	l.logger.WarnContext(ctx, "server requests of the prompt need a legacy session: its gets use one if the client can answer",
		slog.String("prompt", name), slog.String("sdk", client.RefusedServerRequest(refusal)))
}

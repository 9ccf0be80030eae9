// Package gateway answers: how do the parts make one gateway, and how does it start, reload and
// stop?
//
// It merges what the upstreams offer into one catalog, shows each caller the part that the policy
// lets it see, and routes a get to the upstream that owns the prompt. Each package answers one
// question:
//
//	                 client ── HTTP, HTTP+SSE, stdio ──▶ transport ──▶ requests ──▶ upstream
//	                                                         │            │            │
//	                                                         ▼            ▼            │ its state changed
//	operator ──▶ admin ─────────────────────────────────▶ snapshot ◀───────────────────┘
//	command  ──▶ inspect ───────────────────────────────────┘ │
//	                                                          ▼
//	                           catalog, policy, identity, assertion, screen, schema, seal, origin
//
// The packages and their questions:
//   - transport: how are messages received, and responses and notifications sent?
//   - requests: what is the response to a request?
//   - snapshot: what is known at this moment, for one request to use?
//   - inspect: what would a configuration make of the upstreams' lists, and why?
//   - admin: what condition is the gateway in, and what may its operators do?
//   - admin/console: what do operators see in a browser?
//   - catalog: which prompts exist, under which names, and who owns each?
//   - policy: who may see a prompt, and which rule says so?
//   - identity: who is calling?
//   - screen: is there something in a text that must not be passed on?
//   - schema: does a JSON value satisfy a JSON Schema?
//   - flat: what is a prompt with one argument and one text at most?
//   - assertion: how does a server learn who calls?
//   - seal: did this gateway, or a replica of it, make a token?
//   - origin: does a browser's request mean this gateway?
//   - audit: who got what, and was it written down before it was given?
//   - cluster: what do the replicas of a gateway share, and by which store?
//   - edge: may this come in now, and whom does it cost?
//   - clients: what does a client make of a prompt?
//   - clientsetup: how is a client pointed at the gateway?
//
// Promises:
//   - A reload changes everything at once or nothing, apart from teams whose files have mistakes.
//     It costs what it changes. Connectors whose block is unchanged keep their sessions and calls,
//     others end their calls first, and streams continue unless their caller is no longer accepted.
//   - A list that is empty because no upstream could be listed yet is an error.
//   - When Run has returned, everything that the gateway started has ended.
//
// # Glossary
//
// These words mean one thing each, in code, configuration, metrics and documents.
//
//   - upstream: a named MCP server of the configuration, or a folder of prompts in files.
//   - connector: keeps one upstream connected, and calls it.
//   - supervisor: starts and stops connectors.
//   - team: owns upstreams, and decides who else may see their prompts.
//   - principal: who calls, a subject with groups; caller: a principal with the configuration that
//     accepted its credential.
//   - audience: all principals that the policy cannot tell apart.
//   - authenticate: find out who a caller is; authorize: decide whether it may do something.
//   - prompt: an upstream's definition; entry: a prompt in the catalog, under its exposed name,
//     with one or more owners.
//   - catalog: the merge of all lists; view: what one audience sees of it.
//   - visibility: what the policy decided about an entry; grants: what an allow block lets a team
//     use.
//   - variant: a form of the prompts for clients that lose some of the protocol's, at an endpoint of
//     its own beneath the plain one.
//   - generation: everything that follows from one configuration.
//   - snapshot: the immutable state that one request uses: a generation, a catalog, the upstreams'
//     states.
//   - publisher: makes snapshots, and is their only writer; subscription: a client's wish to be
//     told when its view changes.
//   - admission: what a definition passes between a list and the catalog: lock, override, screens.
//   - lock: the definitions that somebody has approved; drift: a definition that differs from it.
//   - override: what a prompt block changes in a definition; argument overrides: its fixed and
//     default arguments.
//   - screen: a check of texts for what must not be passed on.
//   - report: a finding in the catalog that somebody should fix.
//   - problem: the trouble of an upstream; reason: its code, for clients too; cause: what happened,
//     for operators, with a remedy.
//   - revision: a protocol version; era: legacy (initialize handshake) or modern (metadata on each
//     request).
//   - session: a connection with one peer; session token: the sealed one of a legacy client over
//     HTTP.
//   - session pool: an upstream's sessions, one for each set of client capabilities.
//   - request: client to server; server request: server to client; reply: the response to a server
//     request.
//   - relay: progress, log messages and server requests that precede a response.
//   - input required: the result that asks a modern client for input; parked get: a get that waits
//     for its client to reply.
//   - in-flight request: one that its client can still cancel.
//   - cursor: the sealed position at which the next page begins; requestState: a sealed token of a
//     get that required input.
//   - client: the network peer that sends requests; account: what a client holds in connections,
//     streams and bytes, by its principal or, without a credential, its address; ledger: all
//     accounts; owner: the account that bytes count for.
//   - limit: a bound on a principal's requests; breaker: stops calls to an upstream that does not
//     answer.
//   - failover: calling the next owner; retry: calling the same one again; backoff: the wait before
//     it.
//   - origin check: whether an inbound Host and Origin mean this gateway; dial guard: which
//     addresses upstreams may be at.
//   - replica: one of several gateways that are one to their clients.
//   - store: where replicas count rates together; forward: send a request to the replica that holds
//     what it is about.
//   - drain: take the gateway out of service in order.
//   - degraded: serving an upstream's last good list because a fresh one cannot be had.
package gateway

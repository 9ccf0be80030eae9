// Package gateway answers: how do the parts make one gateway, and how does it start, reload and
// stop?
//
// It merges the upstreams' prompts into one catalog, shows each caller the part that the policy
// allows, and routes a get to the upstream that owns the prompt. Each package answers one question:
//
//	                 client ── HTTP, HTTP+SSE, stdio ──▶ transport ──▶ requests ──▶ upstream
//	                                                         │            │            │ its state changed
//	                                                         ▼            ▼            ▼
//	operator ──▶ admin ─────────────────────────────────▶ snapshot ◀── publish
//	command  ──▶ inspect ───────────────────────────────────┘ │
//	                                                          ▼
//	                           catalog, skills, policy, identity, assertion, screen, schema, seal, origin
//
// The packages and their questions:
//   - transport: how are messages received, and responses and notifications sent?
//   - requests: what is the response to a request?
//   - snapshot: which configuration, catalog and upstream states does one request use?
//   - publish: who makes the snapshots, and who is notified of them?
//   - inspect: what would a configuration make of the upstreams' lists, and why?
//   - admin: what condition is the gateway in, and what may its operators do?
//   - admin/console: what do operators see in a browser?
//   - catalog: which prompts exist, under which names, and who owns each?
//   - skills: what is in a skill, and how do clients reach its files?
//   - policy: who may see a prompt, and which rule says so?
//   - identity: who is calling?
//   - screen: does a text contain something that must not be passed on?
//   - schema: does a JSON value satisfy a JSON Schema?
//   - flat: what does a client get that supports only one argument and one text?
//   - assertion: how does a server learn who is calling?
//   - seal: did this gateway, or a replica of it, make a token?
//   - origin: is a browser's request meant for this gateway?
//   - audit: who got which prompt, and was it recorded before the response was sent?
//   - cluster: what do the replicas of a gateway share, and through which store?
//   - edge: may a connection, request or stream come in, and which client does it count for?
//   - clients: what does a client lose of a prompt?
//   - clientsetup: how is a client connected to the gateway?
//
// Promises:
//   - A reload takes effect as a whole or not at all, except for teams whose files have errors.
//     Connectors whose connection settings are unchanged keep their sessions and calls. Other
//     connectors end after their calls. Streams continue unless their caller is no longer accepted.
//   - If a list is empty because no upstream has been listed yet, the request fails.
//   - When Run has returned, everything that the gateway started has ended.
//
// # Glossary
//
// These words mean one thing each, in code, configuration, metrics and documents.
//
//   - upstream: a named MCP server of the configuration, or a folder of prompts in files.
//   - connector: keeps one upstream connected, and calls it.
//   - team: owns upstreams, and decides who else may see their prompts.
//   - principal: the identity of a caller, a subject with groups; caller: a principal with the
//     configuration that accepted its credential.
//   - audience: all principals that the policy cannot tell apart.
//   - authenticate: find out who a caller is; authorize: decide whether it may do something.
//   - prompt: an upstream's definition; entry: a prompt in the catalog, under its exposed name,
//     with one or more owners.
//   - catalog: the merge of all lists; view: the entries that one audience sees.
//   - visibility: the policy's decision about an entry; grants: the permissions of an allow block
//     for a team.
//   - variant: a form of the prompts for clients that do not support all of the protocol, at an
//     endpoint of its own below the plain one.
//   - generation: everything that follows from one configuration.
//   - snapshot: the immutable state that one request uses: a generation, a catalog, the upstreams'
//     states.
//   - publisher: makes snapshots, and is their only writer; subscription: a client's wish to be
//     notified when its view changes.
//   - admission: the steps of a definition from a list to the catalog: lock, override, screens.
//   - lock: the approved definitions; drift: a definition that differs from the lock.
//   - override: the changes that a prompt block makes to a definition; argument overrides: its
//     fixed and default arguments.
//   - screen: a check of texts for content that must not be passed on.
//   - report: a finding in the catalog that a person should fix.
//   - problem: why an upstream is not healthy; reason: its code, also for clients; cause: an
//     explanation for operators, with a remedy.
//   - revision: a protocol version; era: legacy (initialize handshake) or modern (metadata on each
//     request).
//   - session: a connection with one peer; session token: the sealed token of a legacy client's
//     session over HTTP.
//   - session pool: an upstream's sessions, one for each set of client capabilities.
//   - request: client to server; server request: server to client; reply: the response to a server
//     request.
//   - relay: progress, log messages and server requests that precede a response.
//   - input required: the result that asks a modern client for input; parked get: a get that waits
//     for its client to reply.
//   - in-flight request: a request that its client can still cancel.
//   - cursor: the sealed position at which the next page begins; requestState: a sealed token of a
//     get that required input.
//   - client: the network peer that sends requests; account: the connections, streams and bytes of
//     one client, by its principal or, without a credential, its address; ledger: all accounts;
//     owner: the account that bytes count for.
//   - limit: a bound on a principal's requests; breaker: stops calls to an upstream that does not
//     answer.
//   - failover: calling the next owner; retry: calling the same owner again; backoff: the wait
//     before the retry.
//   - origin check: the check that Host and Origin of a request name this gateway; dial guard: the
//     check of the addresses of upstreams.
//   - replica: one of several gateways that look like one gateway to their clients.
//   - store: the server through which replicas count shared rates; forward: send a request to the
//     replica that holds its session or parked get.
//   - drain: end the streams of all clients before the gateway stops.
//   - degraded: serving an upstream's last good list because no fresh list is available.
package gateway

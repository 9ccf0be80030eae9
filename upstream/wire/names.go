package wire

import "slices"

// Methods of requests.
const (
	Initialize    = "initialize"
	Ping          = "ping"
	Discover      = "server/discover"
	Listen        = "subscriptions/listen"
	PromptsList   = "prompts/list"
	PromptsGet    = "prompts/get"
	Complete      = "completion/complete"
	SetLogLevel   = "logging/setLevel"
	ToolsList     = "tools/list"
	ToolsCall     = "tools/call"
	ResourcesList = "resources/list"
	TemplatesList = "resources/templates/list"
	ResourcesRead = "resources/read"
	DirectoryRead = "resources/directory/read"
	SkillsList    = "skills/list"
	SkillsGet     = "skills/get"
)

// ExtensionSkills is the identifier of the Skills extension.
const ExtensionSkills = "io.modelcontextprotocol/skills"

// Methods of server requests. In the legacy era, a server request is a message; in the modern era, it is part of a result.
const (
	Elicit        = "elicitation/create"
	CreateMessage = "sampling/createMessage"
	RootsList     = "roots/list"
)

// Methods of notifications.
const (
	Initialized        = "notifications/initialized"
	Cancelled          = "notifications/cancelled"
	PromptsListChanged = "notifications/prompts/list_changed"
	Acknowledged       = "notifications/subscriptions/acknowledged"
	Progress           = "notifications/progress"
	LogMessage         = "notifications/message"
	ElicitComplete     = "notifications/elicitation/complete"
)

// Keys of _meta that the protocol reserves (2026-07-28, Overview, "_meta").
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaProgressToken      = "progressToken"
	MetaTraceParent        = "traceparent"
	MetaTraceState         = "tracestate"
	MetaBaggage            = "baggage"
)

// HTTP headers of the Streamable HTTP transport, in Go's canonical spelling.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderSessionID       = "Mcp-Session-Id"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderLastEventID     = "Last-Event-Id"
)

// Content types of the Streamable HTTP transport.
const (
	ContentJSON = "application/json"
	ContentSSE  = "text/event-stream"
)

// Values of a result's resultType.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)

// The protocol's revisions that have prompts.
const (
	Rev20241105 = "2024-11-05"
	Rev20250326 = "2025-03-26"
	Rev20250618 = "2025-06-18"
	Rev20251125 = "2025-11-25"
	Rev20260728 = "2026-07-28"
)

// LatestLegacy is the newest revision of the legacy era, whose sessions begin with initialize.
const LatestLegacy = Rev20251125

// Revisions returns every supported revision, newest first.
func Revisions() []string {
	return []string{Rev20260728, Rev20251125, Rev20250618, Rev20250326, Rev20241105}
}

// Modern reports whether a revision belongs to the modern era: each request carries its metadata, and there is no initialize. Revisions are
// dates, so an unknown later revision is also modern.
func Modern(revision string) bool { return revision >= Rev20260728 }

// KnownModern reports whether a revision is supported and modern.
func KnownModern(revision string) bool {
	return Modern(revision) && slices.Contains(Revisions(), revision)
}

// KnownLegacy reports whether a revision is supported and legacy, so that initialize can agree on
// it.
func KnownLegacy(revision string) bool {
	return !Modern(revision) && slices.Contains(Revisions(), revision)
}

// levels are the severities of log messages (RFC 5424), the least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} //nolint:gochecknoglobals // a constant list

// Severity returns the severity of a log level: 1 for debug, up to 8 for emergency, and 0 for an
// unknown level.
func Severity(level string) int { return slices.Index(levels, level) + 1 }

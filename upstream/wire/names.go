package wire

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
	ResourcesList = "resources/list"
	TemplatesList = "resources/templates/list"
)

// Methods of server requests. In the legacy era these are messages, in the modern era they are part
// of a result.
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

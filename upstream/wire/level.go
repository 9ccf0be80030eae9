package wire

import "slices"

// levels are the severities of log messages, the least first (RFC 5424).
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} //nolint:gochecknoglobals // a constant list

// Severity is how severe a log level is: 1 for debug, more for what is worse, and 0 for a level that is not known.
func Severity(level string) int { return slices.Index(levels, level) + 1 }

package wire

import "slices"

// levels are the severities of log messages (RFC 5424), the least severe first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} //nolint:gochecknoglobals // a constant list

// Severity returns how severe a log level is: from 1 for debug upwards, and 0 for an unknown level.
func Severity(level string) int { return slices.Index(levels, level) + 1 }

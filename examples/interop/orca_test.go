//go:build screenreader

package interop_test

import "testing"

// TestConsole_WithAScreenReader has orca.mjs do what an operator does who hears the console instead of seeing it. The script checks what
// Orca says.
func TestConsole_WithAScreenReader(t *testing.T) { converseInTheConsole(t, "orca.mjs") }

package schema

import "errors"

// The reasons why a schema does not compile, or why a value was not checked.
var (
	// ErrExternal means that the schema refers to another document.
	ErrExternal = errors.New("the schema refers to another document, which is not loaded")
	// ErrDialect means that $schema names an unknown dialect.
	ErrDialect = errors.New("$schema names a dialect that is not supported")
	// errTooLarge means that the value is too large or too deep, or contains too large numbers.
	errTooLarge = errors.New("the value is too large to be checked")
	// errTooCostly means that checking the value would take too long.
	errTooCostly = errors.New("the value takes too long to check")
)

package schema

// For the tests, which tell them apart.
var (
	ErrTooLarge  = errTooLarge
	ErrTooCostly = errTooCostly
)

package schema

// The tests tell these errors apart; no other package does.
var (
	ErrTooLarge  = errTooLarge
	ErrTooCostly = errTooCostly
)

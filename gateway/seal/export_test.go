package seal

// For the tests, which tell them apart.
var (
	ErrExpiredKey     = errExpiredKey
	ErrWrongPrincipal = errWrongPrincipal
)

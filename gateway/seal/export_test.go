package seal

// The tests tell these errors apart; no other package does.
var (
	ErrExpiredKey     = errExpiredKey
	ErrWrongPrincipal = errWrongPrincipal
)

package identity

import (
	"fmt"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// maxSubject bounds a subject together with its prefix, in bytes: it is part of every session token.
const maxSubject = 600

// prefixed puts a source's prefix in front of a name that the source gave.
func prefixed(as, name string) string {
	if as == "" {
		return name
	}
	return as + "/" + name
}

// groups returns a principal's groups from names that a source gave.
func groups(as string, names []string) []string {
	var groups []string
	for _, name := range names {
		groups = append(groups, "group:"+prefixed(as, name))
	}
	return groups
}

// subject returns a principal's subject from a name that came with a credential. Names from the configuration were
// validated with it.
func subject(as, name string) (string, error) {
	subject := "user:" + prefixed(as, name)
	_, err := config.ParseSelector(subject)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: the subject is empty or contains white space", ErrBadCredential)
	case subject == policy.AnonymousSubject: // an issuer must not be able to name the callers without a credential
		return "", fmt.Errorf("%w: the subject is reserved for callers without a credential", ErrBadCredential)
	case len(subject) > maxSubject:
		return "", fmt.Errorf("%w: the subject is longer than %d bytes", ErrBadCredential, maxSubject)
	}
	return subject, nil
}

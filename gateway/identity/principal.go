package identity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// principalSyntax ends each error of ParsePrincipal about syntax.
const principalSyntax = "write one user:NAME and any number of group:NAME, as in user:alice,group:payments"

// ParsePrincipal parses the value of the flag --as, such as "user:alice,group:payments".
// "user:anonymous" is a caller without a credential. If there are only groups, the subject is empty.
// ParsePrincipal does not set EveryTeam, which depends on the configuration.
func ParsePrincipal(as string) (policy.Principal, error) {
	var who policy.Principal
	for part := range strings.SplitSeq(as, ",") {
		part = strings.TrimSpace(part)
		selector, err := config.ParseSelector(part)
		switch {
		case err != nil:
			return policy.Principal{}, refused("%q is neither a user nor a group", part)
		case selector.Kind == config.TeamMembers:
			return policy.Principal{}, refused("%q cannot be given, because teams follow from the user and the groups", part)
		case selector.Kind == config.Anybody:
			return policy.Principal{}, refused("%q is not a single caller", part)
		case selector.Kind == config.Group:
			who.Groups = append(who.Groups, part)
		case who.Subject != "":
			return policy.Principal{}, refused("%q and %q are two users", who.Subject, part)
		default:
			who.Subject = part
		}
	}
	who.Anonymous = who.Subject == policy.AnonymousSubject
	if who.Anonymous && len(who.Groups) > 0 {
		return policy.Principal{}, errors.New("user:anonymous is a caller without a credential, " +
			"who is in no group: leave out the groups, or name another user")
	}
	return who, nil
}

func refused(why string, args ...any) error { return fmt.Errorf(why+": "+principalSyntax, args...) }

// NamedPrincipal is like [ParsePrincipal], but also sets Claims to a JSON object and the fields that
// depend on the configuration. If claims is empty and the principal may be a jwt issuer's, its claims
// are unknown. If as contains only groups, the subject becomes a text that no rule can name.
func NamedPrincipal(cfg *config.Config, as, claims string) (policy.Principal, error) {
	principal, err := ParsePrincipal(as)
	if err != nil {
		return policy.Principal{}, err
	}
	likely := principal.Subject
	if likely == "" {
		likely = "user:" + strings.TrimPrefix(principal.Groups[0], "group:") // has the prefix of the group's issuer
		principal.Subject = "somebody in " + strings.Join(principal.Groups, ",")
	}
	principal.EveryTeam = cfg.Auth == nil
	principal.Claims = claims
	principal.ClaimsUnknown = claims == "" && cfg.Auth.MayIssue(likely)
	return principal, nil
}

// maxSubject bounds a subject with its prefix, in bytes, because every session token contains the
// subject.
const maxSubject = 600

// groups converts the group names in a credential to a principal's groups.
func groups(as string, names []string) []string {
	var groups []string
	for _, name := range names {
		groups = append(groups, "group:"+config.Qualify(as, name))
	}
	return groups
}

// subject returns a principal's subject for the name in a credential, or [ErrBadCredential] if the
// name is not valid.
func subject(as, name string) (string, error) {
	subject := "user:" + config.Qualify(as, name)
	_, err := config.ParseSelector(subject)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: the subject is empty or contains white space", ErrBadCredential)
	case subject == policy.AnonymousSubject:
		return "", fmt.Errorf("%w: the subject is reserved for callers without a credential", ErrBadCredential)
	case len(subject) > maxSubject:
		return "", fmt.Errorf("%w: the subject is longer than %d bytes", ErrBadCredential, maxSubject)
	}
	return subject, nil
}

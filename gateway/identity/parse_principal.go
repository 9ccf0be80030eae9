package identity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// principalSyntax ends the errors about a principal's text.
const principalSyntax = "write one user:NAME and any number of group:NAME, as in user:alice,group:payments"

// ParsePrincipal reads a principal from the text of the flag --as, such as "user:alice,group:payments". "user:anonymous" is
// a caller without a credential. It knows no configuration: if there is no auth block, EveryTeam is the caller's to set.
func ParsePrincipal(as string) (policy.Principal, error) {
	var who policy.Principal
	for part := range strings.SplitSeq(as, ",") {
		part = strings.TrimSpace(part)
		selector, err := config.ParseSelector(part)
		switch {
		case err != nil:
			return policy.Principal{}, fmt.Errorf("%q is neither a user nor a group: %s", part, principalSyntax)
		case selector.Kind == config.TeamMembers:
			return policy.Principal{}, fmt.Errorf("%q cannot be given, since teams follow from the user and the groups: %s", part, principalSyntax)
		case selector.Kind == config.Anybody:
			return policy.Principal{}, fmt.Errorf("%q is not a single caller: %s", part, principalSyntax)
		case selector.Kind == config.Group:
			who.Groups = append(who.Groups, part)
		case who.Subject != "":
			return policy.Principal{}, fmt.Errorf("%q and %q are two users: %s", who.Subject, part, principalSyntax)
		default:
			who.Subject = part
		}
	}
	who.Anonymous = who.Subject == policy.AnonymousSubject
	switch {
	case who.Subject == "":
		return policy.Principal{}, fmt.Errorf("%q names no user: %s", as, principalSyntax)
	case who.Anonymous && len(who.Groups) > 0:
		return policy.Principal{}, errors.New("user:anonymous is a caller without a credential, who is in no group: leave out the groups, or name another user")
	}
	return who, nil
}

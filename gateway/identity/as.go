package identity

import (
	"errors"
	"fmt"
	"strings"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// asRemedy ends every error about --as.
const asRemedy = "write one user:NAME and any number of group:NAME, as in user:alice,group:payments"

// ParsePrincipal reads who --as speaks for, such as "user:alice,group:payments". "user:anonymous" is the caller
// without a credential. Nothing is checked against a configuration: where that has no auth block, the principal's
// EveryTeam is the caller's to set.
func ParsePrincipal(as string) (policy.Principal, error) {
	var who policy.Principal
	for part := range strings.SplitSeq(as, ",") {
		part = strings.TrimSpace(part)
		selector, err := config.ParseSelector(part)
		switch {
		case err != nil:
			return policy.Principal{}, fmt.Errorf("%q is neither a user nor a group: %s", part, asRemedy)
		case selector.Kind == config.TeamOf:
			return policy.Principal{}, fmt.Errorf("%q cannot be chosen, teams follow from the user and the groups: %s", part, asRemedy)
		case selector.Kind == config.Anybody:
			return policy.Principal{}, fmt.Errorf("%q is not one caller: %s", part, asRemedy)
		case selector.Kind == config.Group:
			who.Groups = append(who.Groups, part)
		case who.Subject != "":
			return policy.Principal{}, fmt.Errorf("%q and %q are two users: %s", who.Subject, part, asRemedy)
		default:
			who.Subject = part
		}
	}
	who.Anonymous = who.Subject == policy.AnonymousSubject
	switch {
	case who.Subject == "":
		return policy.Principal{}, fmt.Errorf("%q names no user: %s", as, asRemedy)
	case who.Anonymous && len(who.Groups) > 0:
		return policy.Principal{}, errors.New("user:anonymous is whoever has no credential and is in no group: leave out the groups, or name another user")
	}
	return who, nil
}

package policy_test

import (
	"fmt"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/policy"
)

// A team shows the reviews of its upstream to everybody, and everything else to its members only.
func Example() {
	reviews, _ := config.ParsePattern("billing.review_*")
	p := policy.New(&config.Config{
		Auth: &config.Auth{},
		Teams: []config.Team{{
			Name:      "payments",
			Members:   []config.Selector{{Kind: config.Group, Name: "payments"}},
			Upstreams: []config.Upstream{{Name: "billing"}},
			Exposes: []config.Rule{{
				Label:   "reviews",
				Prompts: []config.Pattern{reviews},
				To:      []config.Selector{{Kind: config.Anybody}},
			}},
		}},
	})

	review := p.Visibility("payments", "billing", "billing.review_code", nil)
	refund := p.Visibility("payments", "billing", "billing.refund", nil)
	for _, who := range []policy.Principal{
		{Subject: "user:alice", Groups: []string{"group:payments"}},
		{Subject: "user:bob"},
	} {
		audience := p.Audience(who)
		fmt.Println(who.Subject, "sees the review:", audience.Sees(review), "and the refund:", audience.Sees(refund))
		fmt.Println(p.Explain(who, "payments", "billing", "billing.review_code", nil).Reason)
	}
	// Output:
	// user:alice sees the review: true and the refund: true
	// user:alice is a member of team "payments"
	// user:bob sees the review: true and the refund: false
	// expose "reviews" of team "payments" shows it to user:bob
}

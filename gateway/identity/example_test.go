package identity_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/identity"
)

// A configuration with one token block, which holds the hash of the token, never the token itself.
func Example() {
	authenticator := identity.New(&config.Config{Auth: &config.Auth{
		Tokens: []config.Token{{Subject: "ci", Groups: []string{"builds"}, SHA256: sha256.Sum256([]byte("s3cret-token"))}},
	}}, slog.New(slog.DiscardHandler))

	who, err := authenticator.FromHeader(context.Background(), "Bearer s3cret-token")
	fmt.Println(who.Subject, who.Groups, err)
	_, err = authenticator.FromHeader(context.Background(), "Bearer another-token")
	fmt.Println(err)
	_, err = authenticator.FromHeader(context.Background(), "")
	fmt.Println(errors.Is(err, identity.ErrNoCredential), authenticator.Challenge(err, ""))
	// Output:
	// user:ci [group:builds] <nil>
	// bad credential: unknown token
	// true Bearer
}

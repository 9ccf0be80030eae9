package config

import "github.com/promptweir/promptweir/config/internal/hclread"

// DefaultAdminListen is where health and metrics are served.
const DefaultAdminListen = "127.0.0.1:8081"

// Admin is the admin block.
type Admin struct {
	// Listen is HOST:PORT.
	Listen string
	// TokenSHA256 is the hash of the token that opens the pages to callers beyond loopback; zero if no token does.
	TokenSHA256 Key
	// Place is the zero value without a block.
	Place Place
}

func adminSchema() hclread.Schema {
	return hclread.Schema{
		External:    []string{"listen"},
		Secret:      []string{"token_sha256"},
		Unsupported: []string{"tls"},
	}
}

func decodeAdmin(b *hclread.Block) Admin {
	a := Admin{Listen: DefaultAdminListen, Place: placeOf(b.Range())}
	hclread.Set(b, "listen", &a.Listen, hclread.Checked(checkListen))
	// A Key, unlike the plain array of a Token, masks itself in every print of the Config.
	hclread.Set(b, "token_sha256", &a.TokenSHA256, func(s string) (Key, error) {
		hash, err := parseHash(s)
		return Key{hash}, err
	})
	return a
}

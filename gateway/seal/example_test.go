package seal_test

import (
	"fmt"

	"github.com/promptweir/promptweir/gateway/seal"
)

// A cursor opens on every replica that has the key, and only for the principal that it was sealed for.
func ExampleSealer_OpenCursor() {
	key := [32]byte{1, 2, 3} // use 32 random bytes
	one, err := seal.New([][32]byte{key})
	if err != nil {
		fmt.Println(err)
		return
	}
	other, err := seal.New([][32]byte{{4, 5, 6}, key}) // a new key seals from now on, the old one still opens
	if err != nil {
		fmt.Println(err)
		return
	}

	cursor := one.SealCursor("prompts/list", "user:alice", "billing.review")
	after, err := other.OpenCursor("prompts/list", "user:alice", cursor)
	fmt.Println(after, err)
	_, err = other.OpenCursor("prompts/list", "user:bob", cursor)
	fmt.Println(seal.Reason(err))
	_, err = other.OpenCursor("prompts/list", "user:alice", cursor+"A")
	fmt.Println(seal.Reason(err))
	// Output:
	// billing.review <nil>
	// wrong_principal
	// malformed
}

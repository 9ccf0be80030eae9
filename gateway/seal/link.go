package seal

import "encoding/binary"

// Link identifies a resource link in the result of a get.
type Link struct {
	Owner  string // the upstream that returned the result
	Prompt string // the exposed name
	URI    string // the URI under which the upstream serves the resource
}

// The layout of a link: a version, the hash of the principal's key, the lengths of owner and prompt,
// and then owner, prompt and URI.
const (
	linkVersion  = 1
	linkHeadSize = 1 + bindingSize + 2 + 2
)

// SealLink returns the token of a link for one principal. The token does not expire, so that equal
// gets have equal bytes.
func (s *Sealer) SealLink(principalKey string, l Link) string {
	plaintext := append([]byte{linkVersion}, binding(principalKey)...)
	plaintext = binary.BigEndian.AppendUint16(plaintext, uint16(len(l.Owner)))  //nolint:gosec // the name of an upstream is short
	plaintext = binary.BigEndian.AppendUint16(plaintext, uint16(len(l.Prompt))) //nolint:gosec // the name of a prompt is short
	return s.links.Seal(append(plaintext, l.Owner+l.Prompt+l.URI...))
}

// OpenLink returns the link in a token of the same principal. For the errors, see [Reason].
func (s *Sealer) OpenLink(principalKey, token string) (Link, error) {
	plaintext, err := s.links.Open(token)
	if err != nil {
		return Link{}, err
	}
	if len(plaintext) < linkHeadSize || plaintext[0] != linkVersion {
		return Link{}, ErrMalformed
	}
	head, text := plaintext[1:linkHeadSize], string(plaintext[linkHeadSize:])
	if string(head[:bindingSize]) != string(binding(principalKey)) {
		return Link{}, errWrongPrincipal
	}
	owner := int(binary.BigEndian.Uint16(head[bindingSize:]))
	prompt := owner + int(binary.BigEndian.Uint16(head[bindingSize+2:]))
	if prompt > len(text) {
		return Link{}, ErrMalformed
	}
	return Link{text[:owner], text[owner:prompt], text[prompt:]}, nil
}

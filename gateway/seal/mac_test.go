package seal_test

import "testing"

func TestMAC_IsEqualOnReplicasAndForOnePurpose(t *testing.T) {
	hash := func(purpose, value string, keys ...[32]byte) string {
		return string(sealer(t, keys...).MAC(purpose).AppendHex(nil, []byte(value)))
	}
	one := hash("arguments", "a", key(1))
	if len(one) != 64 || one != hash("arguments", "a", key(1), key(2)) {
		t.Errorf("%s, on a replica that also opens by another key %s", one, hash("arguments", "a", key(1), key(2)))
	}
	for what, other := range map[string]string{
		"another key": hash("arguments", "a", key(2), key(1)), "another purpose": hash("others", "a", key(1)),
		"another value": hash("arguments", "b", key(1)), "no value": hash("arguments", "", key(1)),
	} {
		if other == one {
			t.Errorf("%s has the same hash", what)
		}
	}
}

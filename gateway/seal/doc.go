// Package seal answers: was this token made by this gateway or a replica with the same key, and for
// this purpose?
//
// A token is a piece of the gateway's state that a client stores: a cursor, a session, a link, the
// state of a parked get. Because clients store them, replicas need no shared memory.
//
// Promises:
//
//   - Nobody without a key can make a token, change one, or read its contents.
//   - Equal contents give equal tokens on every replica, so that equal pages have equal bytes.
//   - A token has exactly one spelling: a padded, wrapped or re-encoded token does not open.
//   - A token that was sealed for one purpose does not open for another.
//   - All functions are safe for concurrent use. None blocks or reads a clock.
//
// The layout of a token, before strict unpadded base64url:
//
//	┌──────────┬──────────┬───────────┬──────────────────────┬────────┐
//	│ CRC-32 4 │ key id 4 │ nonce 12  │ AES-256-GCM of plain │ tag 16 │
//	└──────────┴──────────┴───────────┴──────────────────────┴────────┘
//	  of what    which key  derived from the
//	  follows    sealed it  plaintext: see below
//
// The checksum is not for security. It distinguishes a damaged or invented token ("malformed", see
// [Reason]) from an intact token with a key that has left the ring ("expired_key").
//
// # Why the nonce may depend on the plaintext
//
// For each purpose, two keys are derived from the ring's key by HKDF-SHA256. One encrypts; the
// other makes the nonce, which is the first 12 bytes of HMAC-SHA256(nonce key, purpose ‖ length ‖
// plaintext), as in SIV (RFC 5297). AES-GCM breaks if one key uses the same nonce for two
// plaintexts. Here equal plaintexts share a nonce by design, which reveals only that they are
// equal. Different plaintexts share a nonce only if 96 bits of the HMAC collide. By the birthday
// bound, the probability of a collision after n different plaintexts for one key and purpose is about
// n²/2⁹⁷. After 2³² plaintexts, which is a thousand a second for 50 days, it is 2⁻³³, or one in eight
// billion. Put a new key first in the ring before then; the old key still opens its tokens. An upstream
// can force new links. Package requests seals at most 256 links of one result, so that 2³² links take
// 200 such results a second for a day.
package seal

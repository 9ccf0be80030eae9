// Package seal answers: was this token made by this gateway, or by a replica that holds the same key,
// and for this purpose?
//
// A token carries the gateway's own state through a client's hands, so that no replica has to remember
// it. Promises:
//
//   - Nobody without a key can make a token, change one, or read what is in it.
//   - Equal contents give equal tokens, on every replica: equal pages have equal bytes.
//   - Exactly one string opens: no other spelling of a token, padded, wrapped or re-encoded, does.
//   - A token sealed for one purpose does not open for another.
//   - Nothing here blocks or looks at a clock, and nothing of what it answers changes after it is made: all of it is safe for
//     concurrent use.
//
// What a token is made of, before strict unpadded base64url:
//
//	┌──────────┬──────────┬───────────┬──────────────────────┬────────┐
//	│ CRC-32 4 │ key id 4 │ nonce 12  │ AES-256-GCM of plain │ tag 16 │
//	└──────────┴──────────┴───────────┴──────────────────────┴────────┘
//	  of all     which key  of the plaintext: see below
//	  the rest   sealed it
//
// The checksum protects nothing: it tells a damaged or made-up token ([ErrMalformed]) from a whole one
// whose key has left the ring ([ErrExpiredKey]).
//
// # Why the nonce may come from the content
//
// Sealing derives two keys for each purpose by HKDF-SHA256 from the ring's key: one encrypts, the other makes the
// nonce, the first 12 bytes of HMAC-SHA256(nonce key, purpose ‖ length ‖ plaintext), in the manner of SIV
// (RFC 5297). AES-GCM breaks when one nonce serves two plaintexts under one key. Here equal plaintexts
// share a nonce by design, which shows only that they are equal, and two different ones share it only
// if 96 bits of the HMAC collide. By the birthday bound the odds of that after n different plaintexts
// for one key and purpose are about n²/2⁹⁷: 2⁻³³, one in eight thousand million, after 2³² of them, which
// is a thousand a second for 50 days. Replace the key before then; the old one, kept behind the new,
// still opens what it sealed.
package seal

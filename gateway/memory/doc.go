// Package memory answers: how many bytes do requests and responses hold at once, and for whom?
//
// A client decides how long its responses wait, and an upstream how large they are. Whatever a request or response holds is
// counted for the principal and for the upstream that it is about. One of either holds a quarter of max_buffered at most, so
// that neither fills what all need.
//
// Promises:
//   - A holder that holds nothing may always hold one thing, however large: a small max_buffered makes large responses wait for
//     one another, and never impossible. The sum does not exceed max_buffered unless it consists of one thing.
//   - Of the quarter of an upstream, one principal holds three quarters at most, so that it cannot keep others from that upstream.
package memory

// Package inspect answers: what would a configuration make of the upstreams' lists, and why?
//
// The answers are for people: in commands such as list, explain, diff and lock, and in the operators'
// console. The functions only read snapshots and call no upstream. So they work for saved lists and for
// a running gateway.
package inspect

// Package inspect answers: what would a configuration make of the upstreams' lists, and why?
//
// It is for people: commands such as list, explain, diff and lock, and the operators' console.
// The functions only read snapshots and contact no upstream. So they work for saved lists as well as
// for a running gateway.
package inspect

// Package inspect answers: what would a configuration make of the upstreams' lists, and why?
//
// It is for people: commands such as list, explain, diff and lock, and the operators' console.
// Every function evaluates snapshots and contacts nothing, so it works on saved lists as well as on
// a running gateway.
package inspect

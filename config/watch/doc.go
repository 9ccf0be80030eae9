// Package watch answers one question: has a file that was read changed?
//
// It compares the files once a second. A file has changed if its path leads to another file, or to
// one with another time or size, than just before it was read. So no change between reading and
// watching is missed, and a change of a file that nobody read goes unreported.
//
// [Watcher.Record] may be called while [Watcher.Run] runs.
package watch

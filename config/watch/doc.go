// Package watch answers one question: has a file that was read changed?
//
// It watches the folders of the files rather than the files: editors rename a new file over the old
// one, and Kubernetes swaps a link on the way to the files of a ConfigMap. An event only says that
// it is time to compare. A file has changed if its path leads to another file, or to one with
// another time or size, than just before it was read. So no change between reading and watching is
// missed, and a change of a file that nobody read goes unreported.
//
// [Watcher.Record] may be called while [Watcher.Run] runs.
package watch

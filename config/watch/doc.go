// Package watch reports changes of files since they were read.
//
// It compares the files once a second. A file has changed if its path leads to another file, or if its
// time or its size differs. A folder has changed if it has other entries. The first comparison is with
// the state just before reading, so no change between reading and watching is missed. Only files that
// were read are watched.
//
// [Watcher.Record] may be called while [Watcher.Run] runs.
package watch

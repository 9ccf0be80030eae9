// Package watch reports changes of files since they were read.
//
// It compares the files once a second. A file has changed if its path now leads to another file, or
// if its time or its size differs. A folder has changed if it has other entries. Because the first
// comparison is with the state just before reading, no change between reading and watching is
// missed. Files that were not read are not watched.
//
// [Watcher.Record] may be called while [Watcher.Run] runs.
package watch

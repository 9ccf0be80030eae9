// Package httpconn answers: how are the connections of an HTTP/1.1 server made cheaper, without a change in what they do?
//
//   - [Write] sends a large response in one system call. Package net/http writes through a buffer of a few KiB: a response that
//     does not fit leaves in two calls, and the first wakes up the client for a fraction of it. Write gathers the header and the
//     body, which it does not copy, and sends both with writev.
//   - [Conn] hardly ever passes a deadline on to the system. For each request, package net/http sets six for reads and one for
//     writes, and a handler another for writes, of which nearly all are replaced by later ones before they pass.
//   - [Conn.OnRequest] lets whoever made the listener hold up or refuse requests before anything but their first bytes is read.
//   - Connections of clients that have left are closed a few at a time, so that everybody else need not wait when thousands leave.
//
// Measured in pairs of builds with and without (median ratio of CPU per request, 95 % confidence interval):
//
//	Write           list of 100           0.85 (0.73–0.88)
//	                list of 1 000         0.94 (0.91–0.96)
//	                get of 1 MB           0.93 (0.92–0.95)
//	without a copy  list of 100           0.97 (0.94–1.06)
//	                list of 1 000         0.93 (0.90–0.98)
//	                get of 1 MB           0.91 (0.86–0.99)
//	deadlines       list of 10            0.93 (0.89–0.96)
//	                get of 0.3 KB         0.96 (0.93–0.99)
//	                2 000 gets in flight  0.95 (0.88–1.01)
//
// The package relies on no internals of net/http: the size of its buffers, when it flushes them and which deadlines it sets make
// a difference to the cost and not to the result.
package httpconn

// Package console answers: what do operators see of the gateway in a browser, and what can they do
// there?
//
//	browser ── GET /, /prompts, /prompt, /upstreams, /configuration ──▶ page ◀── admin.View
//	   │ ── GET /changes, every two seconds ──▶ has anything changed? then the page is fetched again, and its live parts replaced
//	   ├── POST /prompt ──▶ the same page, with arguments: how the script shows a file while it is edited
//	   ├── POST /try, /try/{id}, /complete ──▶ Options.Call: what an operator does who has signed in
//	   └── GET, POST /sign-in ──▶ admin.Operators
//
// Promises:
//   - The server renders each page whole. Scripts only save a reload, and each page says the same
//     without.
//   - All that a server, a team or a client has written is escaped, isolated from the direction of
//     the text around it, cut where it is long, and shown with code points for characters that
//     cannot be seen. An address becomes a link only where it leads to a page. The content security
//     policy allows the console's own style and scripts, and nothing else.
//   - A page costs what it shows: 10 000 prompts have 200 pages.
package console

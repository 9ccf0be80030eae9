// Package console answers: what do operators see in a browser, and what can they do there?
//
//	browser ── GET /, /prompts, /prompt, /upstreams, /usage, /configuration ──▶ page ◀── admin.View
//	   │ ── GET /changes, every two seconds ──▶ after a change the page is fetched again, and its live parts replaced
//	   ├── POST /prompt ──▶ the same page, with arguments: shows a file while it is edited
//	   ├── POST /try, /complete ──▶ Options.Call, for operators who have signed in
//	   └── GET, POST /sign-in ──▶ admin.Operators
//
// Promises:
//   - The server renders each page completely. Without scripts, each page has the same content, but
//     must be reloaded by hand, and prompts cannot be tried.
//   - All text of servers, teams and clients is escaped, isolated from the direction of the text
//     around it, cut if it is long, and shown with code points for invisible characters. An address
//     becomes a link only if it leads to a page. The content security policy allows only the
//     console's own style and scripts, and images and sounds within the page.
//   - The cost of a page is bounded by its content: 10 000 prompts have 200 pages.
package console

// Package console answers: what do operators see in a browser, and what can they do there?
//
//	browser ── GET /, /prompts, /prompt, /upstreams, /usage, /configuration ──▶ page ◀── admin.View
//	   │ ── GET /changes, every two seconds ──▶ after a change, the script fetches the page again and replaces its live parts
//	   ├── POST /prompt ──▶ the same page, with arguments: shows a file while it is edited
//	   ├── POST /try, /complete ──▶ Options.Call, for operators who have signed in
//	   └── GET, POST /sign-in ──▶ admin.Operators
//
// Promises:
//   - The server renders each page completely. Without JavaScript, the pages have the same content. But
//     people must reload them by hand, and cannot try prompts.
//   - Text from servers, teams and clients is escaped, isolated from the direction of the surrounding
//     text, and cut if it is long. Code points replace invisible characters. Only addresses of the
//     console's pages become links. The content security policy allows only the console's own style and
//     scripts, and images and sounds in data: URLs.
//   - Long lists have pages: 10 000 prompts have 200 pages.
package console

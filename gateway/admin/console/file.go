package console

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/promptweir/promptweir/gateway/admin"
	"github.com/promptweir/promptweir/upstream/files"
	"github.com/promptweir/promptweir/upstream/wire"
)

// maxRendered bounds the total size of the images and sounds of a file on its page, in bytes of base64.
// It is small, because the script fetches the page after each change of the file.
const maxRendered = 1 << 20

// mayRead reports whether the caller may see the text of a prompt's file. Without an auth block, every
// operator may. With one, the operator must have signed in or sent the admin token.
func (c *console) mayRead(r *http.Request) bool {
	return c.operators.Proven(r) || c.view.Snapshot().Config.Auth == nil
}

// fileSection shows the file of a prompt, its problems, and the result of a get. A nil file has no
// section.
func fileSection(f *admin.PromptFile) Node {
	if f == nil {
		return nil
	}
	level, verdict := "card poor", "Served, but probably not as intended:"
	marked, found := map[int]bool{}, []string{}
	for _, problem := range f.Problems {
		if problem.Severity == files.Broken {
			level, verdict = "card bad", "This text is not served; the last good one is:"
		}
		marked[problem.Line] = true
		found = append(found, problem.String())
	}
	return Section(live("file"), Class("file"), Aria("labelledby", "text"),
		H2(ID("text"), Text("Text")),
		If(len(found) > 0, Div(Class(level), P(Text(verdict)), problems(found))),
		Div(Class("columns"),
			Div(quiet(ID("source"), Text("Source: "), location(f.Path)), sourceText(f, marked)),
			Div(quiet(Text("As clients get it, with the arguments of Try it or samples:")), rendered(f))))
}

// sourceText shows the text of a file. It marks the lines that have problems.
func sourceText(f *admin.PromptFile, marked map[int]bool) Node {
	if f.Unread != nil {
		return P(Class("card bad"), bdi(f.Unread.Error()))
	}
	var lines Group
	for i, s := range strings.SplitAfter(text(f.Source), "\n") {
		if marked[i+1] {
			lines = append(lines, Mark(Text(s)))
		} else {
			lines = append(lines, Text(s))
		}
	}
	return Pre(TabIndex("0"), Role("group"), Aria("labelledby", "source"), Code(lines))
}

func rendered(f *admin.PromptFile) Node {
	if f.Failed != nil {
		return P(Class("card bad"), bdi(f.Failed.Error()))
	}
	left := maxRendered
	messages, _ := wire.ParseArray(wire.Members(f.Result).Get("messages"))
	return messageList(messages, &left)
}

// messageList shows at most maxMessages messages. left is the number of bytes of base64 that images
// and sounds may still have.
func messageList(all []jsontext.Value, left *int) Node {
	more := max(0, len(all)-maxMessages)
	return Group{
		Ol(Class("messages"),
			Map(all[:len(all)-more], func(m jsontext.Value) Node {
				return messageCard(wire.Members(m), left)
			}),
			If(len(all) == 0, Li(Class("card"), Text("No messages.")))),
		If(more > 0, quiet(Text(count(more, "message")+" more, not shown."))),
	}
}

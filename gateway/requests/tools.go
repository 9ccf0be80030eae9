package requests

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/promptweir/promptweir/config"
	"github.com/promptweir/promptweir/gateway/catalog"
	"github.com/promptweir/promptweir/gateway/flat"
	"github.com/promptweir/promptweir/gateway/policy"
	"github.com/promptweir/promptweir/gateway/seal"
	"github.com/promptweir/promptweir/upstream/wire"
)

// The endpoint's variant "tools" has two tools besides the prompts. A call of a tool becomes the
// corresponding list or get, so that all decisions are made in one place. Only its params and its
// result have another form.
const (
	toolList = "list_prompts"
	toolGet  = "get_prompt"
)

// tools contains the definitions of the tools. Only list_prompts has an outputSchema. A get's text
// would be in only one of content and structuredContent, and some hosts show a model only the one,
// others only the other.
const tools = `[{"name":"list_prompts","title":"List prompts","description":` +
	`"Lists the prompts that get_prompt can get: instructions that people wrote for recurring tasks. With a query, only those ` +
	`that have one of its words in their name, title or description.",` +
	`"inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Words for the task at hand."},` +
	`"cursor":{"type":"string","description":"The nextCursor of the page before, with the same query."}}},` +
	`"outputSchema":{"type":"object","properties":{"prompts":{"type":"array","items":{"type":"object","properties":{` +
	`"name":{"type":"string"},"title":{"type":"string"},"description":{"type":"string"},` +
	`"arguments":{"type":"array","items":{"type":"object"}}},"required":["name"]}},` +
	`"nextCursor":{"type":"string"}},"required":["prompts"]},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":false}},` +
	`{"name":"get_prompt","title":"Get a prompt","description":` +
	`"Gets the text of a prompt of list_prompts, with its arguments filled in.",` +
	`"inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"The prompt's name."},` +
	`"arguments":{"type":"object","description":"Values of the prompt's arguments by name. Required ones must be there.",` +
	`"additionalProperties":true}},"required":["name"]},` +
	`"annotations":{"readOnlyHint":true,"openWorldHint":false}}]`

const (
	// toolPage bounds the prompts in one result of list_prompts, which a model reads.
	toolPage = 50
	// maxQueryWords bounds the words of a query, maxQuery its length in bytes. The rest is ignored.
	maxQueryWords, maxQuery = 16, 1000
)

// toolCall is the tool that a request calls.
type toolCall struct {
	name  string // empty if the request calls no tool
	query string // the query of list_prompts
	// refusal is the error for an unknown tool or invalid arguments.
	refusal *wire.Error
}

// ResolveTool turns a call of a tool into the corresponding request. Call it after the headers were
// compared with the message. A second call does nothing.
func (r *Request) ResolveTool() {
	if r.Variant != config.VariantTools || r.Message.Method != wire.ToolsCall {
		return
	}
	name, _ := r.Params.Text("name")
	sent, arguments := r.Params.Get("arguments"), withoutNulls(r.Params.Object("arguments"))
	query := arguments.Get("query")
	var params []string // the tool's arguments that become the request's
	switch {
	case sent != nil && sent.Kind() != '{':
		r.tool.refusal = invalidParams("arguments must be an object")
		return
	case name == toolGet:
		r.Message.Method, params = wire.PromptsGet, []string{"name", "arguments"}
	case name != toolList:
		r.tool.refusal = wire.NewError(wire.InvalidParams, "Unknown tool: "+name)
		return
	case query != nil && query.Kind() != '"' && query.Kind() != 'n':
		r.tool.refusal = invalidParams("query must be a string")
		return
	default:
		r.Message.Method, params = wire.PromptsList, []string{"cursor"}
		r.tool.query, _ = wire.Text(query)
	}
	r.tool.name = name
	r.Params = r.Params.Without(func(name string) bool { return name == "name" || name == "arguments" })
	for _, param := range params {
		if value := arguments.Get(param); value != nil {
			r.Params = r.Params.With(param, value)
		}
	}
}

// listTools returns the result of tools/list, which is the same for all callers.
func (x *run) listTools() (Result, error) {
	if x.r.Params.Get("cursor") != nil { // there is no second page
		return Result{}, invalidCursor(seal.ErrMalformed)
	}
	// Add the resultType here: it would otherwise come after the hints.
	members := wire.Object{}.With("tools", jsontext.Value(tools)).With("resultType", quotedComplete)
	return Result{Members: x.era.cacheable(members, discoveryTTL, "public")}, nil
}

// form converts the result of a get to the flat form or to the result of a tool, as the request
// requires.
func (r *Request) form(result jsontext.Value) jsontext.Value {
	switch {
	case r.Variant == config.VariantFlat:
		return flat.Result(result)
	case r.tool.name == "" || wire.KindOf(result, "messages") != '[':
		return result
	}
	object := wire.Members(result)
	text, attached := flat.Text(object.Get("messages"), true)
	content := append([]jsontext.Value{flat.Block(text)}, attached...)
	return object.Without(func(name string) bool { return name != "_meta" && name != "resultType" }).
		With("content", wire.Array(content)).JSON()
}

// toolError returns an error as the result of a tool, with the text of the get's or list's error.
// ok is false for errors that the client must handle, rather than its model.
func (r *Request) toolError(refusal *wire.Error) (_ Result, ok bool) {
	switch {
	case r.tool.name == "", r.tool.refusal != nil, refusal.Code == wire.MissingClientCapability:
		return Result{}, false
	case refusal.Code == wire.InvalidParams && (r.tool.name == toolList || ownReason(refusal) == "state"):
		return Result{}, false
	}
	return Result{Members: wire.Object{}.With("content", wire.Array([]jsontext.Value{flat.Block(refusal.Message)})).
		With("isError", jsontext.Value("true"))}, true
}

// listForTool returns the result of list_prompts: the page of the view after a name, or the first
// page.
func (x *run) listForTool(ctx context.Context, audience *policy.Audience, view *catalog.View, after string) (Result, error) {
	entries := view.Entries()
	if words := queryWords(x.r.tool.query); len(words) > 0 {
		if entries = matching(ctx, entries, words); ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
	}
	if after != "" {
		at := slices.IndexFunc(entries, func(e *catalog.Entry) bool { return e.Name == after })
		if at < 0 { // the entry is gone, and so is the position
			return Result{}, invalidCursor(seal.ErrMalformed)
		}
		entries = entries[at+1:]
	}
	page := entries[:catalog.PageLength(entries, toolPage)]
	listed := make([]jsontext.Value, len(page))
	for i, e := range page {
		listed[i] = wire.Members(e.JSON).Without(func(name string) bool {
			return !slices.Contains([]string{"name", "title", "description", "arguments"}, name)
		}).JSON()
	}
	found := wire.Object{}.With("prompts", wire.Array(listed))
	if len(page) < len(entries) {
		found = found.With("nextCursor", wire.Quote(x.sealPosition(page[len(page)-1].Name)))
	}
	structured := found.JSON()
	return Result{audience: audience, append: func(dst []byte) []byte {
		// The same content as text, for clients without structuredContent (2025-06-18, Tools,
		// "Structured Content").
		dst = append(append(dst, `"content":[`...), flat.Block(string(structured))...)
		return append(append(dst, `],"structuredContent":`...), structured...)
	}}, nil
}

func queryWords(query string) (words []string) {
	isBetween := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for word := range strings.FieldsFuncSeq(strings.ToLower(query[:min(len(query), maxQuery)]), isBetween) {
		// A repeated word would take the place of another one.
		if len(words) < maxQueryWords && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// minInside is the minimum length, in bytes, of a query's word that may match inside another word.
const minInside = 4

// hasWord reports whether a text contains a word. A word shorter than minInside must be at the
// beginning of a word in the text.
func hasWord(text, word string) bool {
	for at := 0; ; at += len(word) {
		next := strings.Index(text[at:], word)
		if next < 0 || len(word) >= minInside {
			return next >= 0
		}
		at += next
		if last, _ := utf8.DecodeLastRuneInString(text[:at]); !unicode.IsLetter(last) && !unicode.IsDigit(last) {
			return true
		}
	}
}

// matching returns the entries with at least one of the words in their name, title or description.
// If ctx ends, the result has no meaning.
func matching(ctx context.Context, entries []*catalog.Entry, words []string) (hits []*catalog.Entry) {
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil
		}
		text := e.Searched()
		if slices.ContainsFunc(words, func(word string) bool { return hasWord(text, word) }) {
			hits = append(hits, e)
		}
	}
	return hits
}

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

// At the variant "tools" of the endpoint, there are two tools beside the prompts. A call of one is
// the list or get that it stands for, so that nothing is decided twice; only its params and its
// result have another form.
const (
	toolList = "list_prompts"
	toolGet  = "get_prompt"
)

// tools are the definitions. Only list_prompts has an outputSchema: hosts differ in whether a model
// is shown a result's content or its structure, and a get's text would be in one of them.
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
	// toolPage bounds the prompts of one result of list_prompts, which a model reads.
	toolPage = 50
	// maxQueryWords bounds the words of a query that count, maxQuery what is read of it, in bytes.
	maxQueryWords, maxQuery = 16, 1000
)

// toolCall is which tool a request calls.
type toolCall struct {
	name  string // empty for none
	query string // of list_prompts
	// refusal answers a call that is none of the two.
	refusal *wire.Error
}

// ResolveTool makes the call of a tool the request that it stands for. To be called when the headers
// have been compared with what the client sent; calling it again does nothing.
func (r *Request) ResolveTool() {
	if r.Variant != config.VariantTools || r.Message.Method != wire.ToolsCall {
		return
	}
	name, _ := r.Params.Text("name")
	sent, arguments := r.Params.Get("arguments"), withoutNulls(r.Params.Object("arguments"))
	query := arguments.Get("query")
	var params []string // those of the tool's arguments that become the request's
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

// listTools appends the result of tools/list, which is the same for everybody.
func listTools(r *Request, out *Response, info jsontext.Value) error {
	if r.Params.Get("cursor") != nil { // there is no second page
		return invalidCursor(seal.ErrMalformed)
	}
	result := wire.Object{}.With("tools", jsontext.Value(tools))
	if r.Modern() {
		result = result.With("resultType", quotedComplete).
			With("ttlMs", jsontext.Value(discoveryTTL)).With("cacheScope", wire.Quote("public")).
			With("_meta", wire.Object{}.With(wire.MetaServerInfo, info).JSON())
	}
	out.append(result.JSON())
	return nil
}

// form returns the result of a get in the form that the request wants.
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

// toolError returns the result by which a tool says what is wrong, in the words of the get or list;
// nil where the client has to deal with it rather than its model.
func toolError(r *Request, refusal *wire.Error, info jsontext.Value) jsontext.Value {
	switch {
	case r.tool.name == "", r.tool.refusal != nil, refusal.Code == wire.MissingClientCapability:
		return nil
	case refusal.Code == wire.InvalidParams && (r.tool.name == toolList || ownReason(refusal) == "state"):
		return nil
	}
	result := wire.Object{}.With("content", wire.Array([]jsontext.Value{flat.Block(refusal.Message)})).
		With("isError", jsontext.Value("true"))
	if r.Modern() {
		result = result.With("resultType", quotedComplete).
			With("_meta", wire.Object{}.With(wire.MetaServerInfo, info).JSON())
	}
	return result.JSON()
}

// listForTool appends the result of list_prompts: the page of the view behind a name.
func (h *Handler) listForTool(
	ctx context.Context, r *Request, out *Response, audience *policy.Audience, view *catalog.View, after string,
) error {
	entries := view.Entries()
	if words := queryWords(r.tool.query); len(words) > 0 {
		if entries = matching(ctx, entries, words); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if after != "" {
		at := slices.IndexFunc(entries, func(e *catalog.Entry) bool { return e.Name == after })
		if at < 0 { // gone, and with it the position
			return invalidCursor(seal.ErrMalformed)
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
		found = found.With("nextCursor", wire.Quote(r.sealPosition(page[len(page)-1].Name)))
	}
	// The same as text, for clients from before structuredContent (2025-06-18, Tools, "Structured
	// Content").
	content := flat.Block(string(found.JSON()))
	out.append(append(append([]byte(`{"content":[`), content...), `],"structuredContent":`...))
	out.append(found.JSON())
	appendListMeta(r, out, audience, h.info)
	return nil
}

func queryWords(query string) (words []string) {
	isBetween := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for word := range strings.FieldsFuncSeq(strings.ToLower(query[:min(len(query), maxQuery)]), isBetween) {
		// A word that is written twice would count, and cost, twice.
		if len(words) < maxQueryWords && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}

// minInside is the length from which a word of a query may be inside of another word, in bytes.
const minInside = 4

// hasWord reports whether a text has a word; a short one only where a word begins.
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

// matching returns the entries whose name, title or description has at least one of the words. If ctx
// ends, the result means nothing.
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
